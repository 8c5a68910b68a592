"""The first of several packages that this machine can run is loaded, and the others are told."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_package import build_package, change_package

import tvmbuild
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return build_package(digits, tmp_path_factory.mktemp("choice"))


def make_foreign(package: Path, path: Path, **attributes: str) -> Path:
    target = read_metadata(package).target
    changed = replace(target, name=path.stem, attributes=FrozenMap({**target.attributes, **attributes}))
    return change_package(package, path, target=changed)


def test_the_first_that_runs_is_taken_and_the_others_are_told(package: Path, tmp_path: Path) -> None:
    board = make_foreign(package, tmp_path / "board.tar", mtriple="riscv64-linux-gnu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = tvmbuild.load(iter([board, package, tmp_path / "never.tar"]), 1)  # an iterator is read once
    with session:
        assert session.target.name == "here"
        assert list(session.passed_over) == [str(board)]
        assert "the package is built for riscv64 (board)" in session.passed_over[str(board)]
        session.run({"Input3": np.zeros((1, 1, 28, 28), np.float32)})


def test_a_damaged_or_missing_package_is_passed_over_with_a_warning(package: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(package.read_bytes()[:5000])
    with pytest.warns(RuntimeWarning) as told:
        session = tvmbuild.load([tmp_path / "missing.tar", damaged, package])
    session.close()
    texts = [str(each.message) for each in told]
    assert any("missing.tar was passed over: missing.tar: no such package" in text for text in texts)
    assert any("damaged.tar was passed over: damaged.tar is damaged" in text for text in texts)


def test_all_reasons_are_told_if_none_runs(package: Path, tmp_path: Path) -> None:
    names = ("riscv64", "s390x")
    boards = [make_foreign(package, tmp_path / f"{name}.tar", mtriple=f"{name}-linux-gnu") for name in names]
    with pytest.raises(TvmbuildError, match="this machine can run none of the packages") as caught:
        tvmbuild.load(boards)
    for name in names:
        assert f"{name}.tar: the package is built for {name} ({name})" in caught.value.message
    with pytest.raises(TvmbuildError, match="no package was named"):
        tvmbuild.load([])


def test_a_package_that_was_overwritten_is_refused(package: Path, tmp_path: Path) -> None:
    own, value = tmp_path / "own.tar", {"Input3": np.zeros((1, 1, 28, 28), np.float32)}
    own.write_bytes(package.read_bytes())
    with tvmbuild.load(own) as session, tvmbuild.load(own) as other:
        session.run(value)
        assert session._file is other._file  # one mapping for both
        fresh = tmp_path / "fresh.tar"
        fresh.write_bytes(package.read_bytes())
        fresh.replace(own)  # as mv and tvmbuild's own builds do
        session.run(value)
    with tvmbuild.load(own) as session:
        own.write_bytes(package.read_bytes())
        with pytest.raises(TvmbuildError, match=r"own\.tar was overwritten while a session used it"):
            session.run(value)
