"""Every folder of examples/ is a project that loads and plans."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tvmbuild.base.layout import Layout
from tvmbuild.config import load_project

ALL = sorted(path.parent for path in (Path(__file__).resolve().parents[2] / "examples").glob("*/dodo.py"))
EXAMPLES = [folder for folder in ALL if folder.name != "yoeo"]
"""The examples that have their model, or its address."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_plans(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "doit", "list", "--all", "-q"], cwd=folder, capture_output=True, text=True, check=True
    )
    project = load_project(folder)
    cells = {f"{model.name}@{target.name}" for model in project.models for target in project.targets}
    assert {f"compile:{cell}" for cell in cells} <= set(done.stdout.split())


@pytest.mark.parametrize("folder", ALL, ids=lambda folder: folder.name)
def test_is_listed_and_names_the_schemas(folder: Path, project_root: Path) -> None:
    assert f"({folder.name}/README.md)" in (project_root / "examples" / "README.md").read_text()
    for name in ("models", "targets"):
        first = (folder / f"{name}.yaml").read_text().splitlines()[0]
        assert (folder / first.rpartition("$schema=")[2]).is_file()


def test_the_voice_activity_project_uses_the_shipped_records(project_root: Path) -> None:
    folder = project_root / "examples" / "voice_activity"
    (target,) = load_project(folder).targets
    shipped = next(each for each in load_project(project_root).targets if each.name == target.name)
    assert (target.attributes, target.measured_on) == (shipped.attributes, shipped.measured_on)
    assert Layout(folder).records(target.name).resolve() == Layout(project_root).records(target.name)
