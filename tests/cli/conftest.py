"""Fixtures of the tests of commands that run a package."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_package import build_package


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """A package of the small network for this machine; tests must only read it."""
    return build_package(digits, tmp_path_factory.mktemp("run"))


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, locks of its own, and a terminal wide enough for any line."""
    (tmp_path / "locks").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
