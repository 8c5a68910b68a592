"""Fixtures that several test folders share."""

from __future__ import annotations

from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


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
