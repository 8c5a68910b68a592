"""A full cache, and a clone that could use it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from doit_project import ON_V3, REAL, STEPS_ON_V3, DoitProject, make_project, write_project
from warm_cache import SOURCES, Warm, list_restored


@pytest.fixture(scope="session", params=["quick", pytest.param("real", marks=[*REAL, pytest.mark.nights(2)])])
def quick(request: pytest.FixtureRequest) -> bool:
    """Return whether the steps of the test's project compute nothing; a test that uses this fixture runs both ways."""
    return bool(request.param == "quick")


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory, digits: Path, quick: bool) -> Warm:
    folder = tmp_path_factory.mktemp("warm")
    project = write_project(folder, digits, ON_V3, quick=quick)
    ran = project.doit(TVMBUILD_CACHE=str(folder / "cache"))
    assert ran.steps == STEPS_ON_V3, ran.output
    assert list_restored(ran) == []
    assert len(list((project.root / "records/v3").glob("*.json"))) == 2
    return Warm(project, folder / "cache")


@pytest.fixture
def cache(warm: Warm, tmp_path: Path) -> Path:
    """A copy of the full cache."""
    return Path(shutil.copytree(warm.cache, tmp_path / "cache"))


@pytest.fixture
def clone(warm: Warm, tmp_path: Path) -> DoitProject:
    """The files that git has of the project, in another place."""
    project = make_project(tmp_path / "some where" / "else", warm.project.quick)
    for name in SOURCES:
        source = warm.project.root / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, project.root / name)
    return project


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, digits: Path, quick: bool) -> DoitProject:
    """A project of one cell whose steps have all run, without a search."""
    project = write_project(tmp_path_factory.mktemp("built"), digits, ON_V3, quick=quick)
    ran = project.doit("tune=never")
    assert ran.steps == STEPS_ON_V3, ran.output
    return project


@pytest.fixture
def project(built: DoitProject, tmp_path: Path) -> DoitProject:
    """A copy of the module's project `built`."""
    return built.copy(tmp_path)
