from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiler


def test_a_shelf_keeps_the_libraries_of_the_five_fastest_and_removes_the_others(tmp_path: Path) -> None:
    from tvmbuild.tuning.built_libraries import Shelf

    shelf, seconds = Shelf(), [5.0, 3.0, 8.0, 1.0, 9.0, 2.0, 7.0]
    for value in seconds:
        (library := tmp_path / f"{value}.so").touch()
        shelf.put(partial("trace {}".format, value), value, str(library))
    kept = sorted(seconds)[:5]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{value}.so" for value in kept]
    assert [shelf.find(f"trace {value}") for value in kept] == [str(tmp_path / f"{value}.so") for value in kept]
    assert shelf.find("trace 9.0") is None
    shelf.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_is_measured_twice_has_one_library(tmp_path: Path) -> None:
    from tvmbuild.tuning.built_libraries import Shelf

    shelf = Shelf()
    for name in ("first", "second"):
        (tmp_path / name).touch()
        shelf.put(lambda: "trace", 1.0, str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["second"]
    assert shelf.find("trace") == str(tmp_path / "second")
