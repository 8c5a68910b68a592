"""A float model for a float target and, quantised, for an integer target: the steps that run after each change."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from doit_project import QUICK, DoitProject, start_in_step, write_project
from PIL import Image

MODELS = """\
models:
  digits:
    source: {path: digits.onnx}
    preprocess: {color: gray}
    quantize:
      calibration: {images: [pictures/*.png]}
      method: onnxruntime
"""
CPU = "kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 1, measured_on: here"
TARGETS = f"""\
defaults: {{tune: {{ops: []}}, benchmark: {{repeat: 3}}}}
targets:
  v3: {{{CPU}}}
  int8: {{{CPU}, precision: int8}}
"""
INT8 = ["tune:digits@int8", "compile:digits@int8", "benchmark:digits@int8"]
FLOAT = ["tune:digits@v3", "compile:digits@v3", "benchmark:digits@v3"]


def draw_picture(path: Path, seed: int) -> None:
    pixels = np.random.RandomState(seed).randint(0, 256, (28, 28), np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, digits: Path, quick: bool) -> DoitProject:
    project = write_project(tmp_path_factory.mktemp("built"), digits, MODELS, TARGETS, quick=quick)
    (project.root / "pictures").mkdir()
    for seed in range(3):
        draw_picture(project.root / "pictures" / f"{seed}.png", seed)
    ran = project.doit("tune=never")
    assert ran.code == 0, ran.output
    assert sorted(ran.steps) == sorted(["simplify:digits", "quantize:digits", *FLOAT, *INT8])
    return project


def run(project: DoitProject, *arguments: str) -> list[str]:
    ran = project.doit("tune=never", *arguments)
    assert ran.code == 0, ran.output
    return ran.steps


def test_pictures_are_inputs_of_the_quantised_cells_alone(project: DoitProject) -> None:
    assert run(project) == []
    pictures = project.root / "pictures"
    os.utime(pictures / "0.png")
    assert run(project) == []
    changes: tuple[Callable[[], object], ...] = (
        lambda: draw_picture(pictures / "0.png", 9),
        lambda: draw_picture(pictures / "3.png", 3),
        (pictures / "1.png").unlink,
        lambda: project.edit("models.yaml", "method: onnxruntime", "method: onnxruntime\n      exclude: [Gemm]"),
    )
    for change in changes:
        change()
        steps = run(project)
        assert steps[0] == "quantize:digits"
        # A picture that changes no range leaves the model as it is; the first one changes the compared numbers.
        every = {"quantize:digits", *INT8}
        assert set(steps) == every or (not project.quick and set(steps) < every)
    (pictures / "2.png").rename(pictures / "4.png")
    pictures.joinpath("3.png").rename(pictures / "2.png")
    assert run(project)[:1] == ["quantize:digits"]
    assert run(project) == []


def test_without_any_picture_nothing_begins(project: DoitProject) -> None:
    for path in (project.root / "pictures").iterdir():
        path.unlink()
    ran = project.doit()
    assert ran.code != 0
    assert ran.steps == []
    assert re.search(r"models.yaml:6:\d+: models.digits.quantize.calibration.images\[0\]: ", ran.output)
    assert '"pictures/*.png" matches no file; expected a glob of pictures' in ran.output
    assert "Traceback" not in ran.output


@QUICK
def test_killed_in_the_middle_it_runs_again(project: DoitProject) -> None:
    model = project.root / "build/models/digits/quantised/model.onnx"
    before = model.read_bytes()
    draw_picture(project.root / "pictures" / "0.png", 11)
    process = start_in_step(project, "quantize:digits", "tune=never")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert run(project)[0] == "quantize:digits"
    assert project.temporaries() == []
    assert model.read_bytes() != before
    assert run(project) == []


def test_a_library_that_is_missing_leaves_the_float_cells(project: DoitProject, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    # importlib.metadata asks every finder of sys.meta_path; without this one's distributions there is no nncf.
    (hidden / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "found = metadata.version\n"
        "def version(name):\n"
        "    if name == 'nncf':\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.version = version\n"
    )
    project.edit("models.yaml", "method: onnxruntime", "method: nncf")
    folders = [str(hidden), project.environment().get("PYTHONPATH", "")]
    ran = project.doit("tune=never", PYTHONPATH=os.pathsep.join(filter(None, folders)))
    assert (ran.code, ran.failed) == (0, [])
    reason = "NNCF is not installed; `pip install 'tvmbuild[quantize]'`, or say `method: onnxruntime`"
    assert reason in " ".join(ran.output.split())
    strict = project.doit("quantize:digits", "strict=1", PYTHONPATH=os.pathsep.join(filter(None, folders)))
    assert strict.code != 0
    assert strict.failed == ["quantize:digits"]


@QUICK
def test_the_float_cells_of_a_failed_quantisation_go_on(built: DoitProject, tmp_path: Path) -> None:
    project = built.copy(tmp_path)
    draw_picture(project.root / "pictures" / "5.png", 5)
    ran = project.doit("tune=never", QUICK_STAGE_BUG="quantize")
    assert ran.failed == ["quantize:digits"]
    report = (project.root / "build/report.md").read_text()
    (float_row,) = [line for line in report.splitlines() if line.startswith("| digits | v3 |")]
    (row,) = [line for line in report.splitlines() if line.startswith("| digits | int8 |")]
    assert "failed" in row
    assert "failed" not in float_row
