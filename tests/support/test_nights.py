"""Shared-out tests are run: each part in one of the nights, and all of them on request."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from nights import ALL, SHARED_BY, VARIABLE, begin_night, share

FILE = """
import pytest
@pytest.mark.nights(3)
@pytest.mark.parametrize("number", range(7))
def test_some(number): print(f"<{number}>", end="")
def test_always(): print("<always>", end="")
"""
CONFTEST = "from nights import skip_other_nights\ndef pytest_collection_modifyitems(items): skip_other_nights(items)"


def run(folder: Path, **variables: str) -> list[str]:
    """Return the tests that ran in that night."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(FILE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_some.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return [word.partition("<")[2] for word in done.stdout.split(">")[:-1]]


def test_each_item_has_one_night(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for night in range(100, 104):
        monkeypatch.setenv(VARIABLE, str(night))
        parts.append(share(range(10), 4))
    assert sorted(chain.from_iterable(parts)) == list(range(10))
    assert max(map(len, parts)) == 3
    monkeypatch.setenv(VARIABLE, ALL)
    assert share(range(10), 4) == list(range(10))


def test_the_night_stays_for_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert begin_night().isdigit()
    assert os.environ[VARIABLE] == begin_night()


def test_marked_tests_are_shared_out_and_others_run_every_night(tmp_path: Path) -> None:
    nights = [run(tmp_path, **{VARIABLE: str(night), SHARED_BY: "1"}) for night in range(3)]
    assert [night[-1] for night in nights] == ["always"] * 3
    assert [night[:-1] for night in nights] == [["0", "3", "6"], ["1", "4"], ["2", "5"]]
    assert len(run(tmp_path, **{VARIABLE: ALL})) == 8


def test_all_can_be_shared_out(tmp_path: Path) -> None:
    assert "always" in run(tmp_path, **{VARIABLE: "0", SHARED_BY: "2"})
    assert "always" not in run(tmp_path, **{VARIABLE: "1", SHARED_BY: "2"})
