"""The commands in the examples' READMEs print what those show, except for commands with a reason not to run them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from example_project import copy_example
from network_files import find_network
from shown_commands import find_unseen, list_blocks, list_shown, run_shell

from tvmbuild.base.host_cpu import cpu_flags

READMES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/README.md"))
RUN = [path.parent.name for path in READMES if any(not why for why, _ in list_blocks(path.read_text(), "sh"))]


def _explain_camera() -> str | None:
    if importlib.util.find_spec("nncf") is None:
        return "NNCF is not installed"
    return None if {"avx512_vnni", "avx512vbmi"} <= cpu_flags() else "another processor"


LACKS: dict[str, Callable[[], str | None]] = {"camera": _explain_camera}
WHEEL = """\
      package: magika==1.0.3
      file: magika/models/standard_v3_3/model.onnx
"""


def test_those_that_need_nothing_else_are_run() -> None:
    assert {"bytes", "camera", "classify", "voice_activity"} <= set(RUN)


@pytest.mark.nightly
@pytest.mark.nights(2)
@pytest.mark.compiler
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", RUN)
def test_commands_print_what_the_readme_says(name: str, tmp_path: Path, project_root: Path) -> None:
    lacks = LACKS.get(name, lambda: None)()
    if lacks:
        pytest.skip(lacks)
    folder = copy_example(project_root, tmp_path, name)
    if name != "classify":
        (folder.parent / "classify").symlink_to(project_root / "examples" / "classify")
    if name == "bytes":  # the test's download stays in the cache
        (folder / "model.onnx").symlink_to(find_network("magika"))
        models = folder / "models.yaml"
        models.write_text(models.read_text().replace(WHEEL, "      path: model.onnx\n"))
    readme = (project_root / "examples" / name / "README.md").read_text(encoding="utf-8")
    blocks = [block for why, block in list_blocks(readme, "sh") if not why]
    done = run_shell("\n".join(["set -euo pipefail", *blocks]), folder, project_root)
    assert done.returncode == 0, done.stdout
    assert find_unseen(list_shown(readme), done.stdout) == [], done.stdout
