"""A cluster, and what it builds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_cluster import DaskCluster, run_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A scheduler and two workers."""
    with run_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[DaskCluster]:
    """A scheduler without workers."""
    with run_cluster(tmp_path / "cluster", workers=0) as running:
        yield running
