"""Fixtures that several test folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()


@pytest.fixture(autouse=True)
def _all_cores() -> Iterator[None]:
    """Give the process its cores back: a tune stage that runs in it keeps to some, and its children would too."""
    yield
    if _CORES:
        os.sched_setaffinity(0, _CORES)


def _shared(folder: str) -> Path:
    path = PROJECT.parent / "shared" / folder
    if not path.is_dir():
        pytest.skip(f"needs the folder {folder} of shared test data beside the project")
    return path


@pytest.fixture(scope="session")
def project_root() -> Path:
    return PROJECT


@pytest.fixture(scope="session")
def shared_models() -> Path:
    return _shared("models")


@pytest.fixture(scope="session")
def shared_images() -> Path:
    return _shared("images")


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test a cache folder and a runtime folder of its own."""
    for variable in ("XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
        folder = tmp_path / variable.lower()
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(folder))
