"""A cluster, and the project that it builds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dask_cluster import DaskCluster, run_cluster
from doit_project import REAL


@pytest.fixture(scope="module", params=["quick", pytest.param("real", marks=REAL)])
def quick(request: pytest.FixtureRequest) -> bool:
    """Return whether steps compute nothing, on the cluster and here; a test that uses this fixture runs both ways."""
    return bool(request.param == "quick")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, quick: bool) -> Iterator[DaskCluster]:
    """A scheduler and two workers."""
    with run_cluster(tmp_path_factory.mktemp("cluster"), workers=2, quick=quick) as running:
        yield running


@pytest.fixture
def lone(tmp_path: Path, quick: bool) -> Iterator[DaskCluster]:
    """A scheduler without workers."""
    with run_cluster(tmp_path / "cluster", workers=0, quick=quick) as running:
        yield running
