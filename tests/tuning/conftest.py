from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_folders(own_folders: None) -> None:
    """Have searches in the test's process leave the user's cache and locks alone."""
