"""Two arm64 packages, sent by doit to a board behind a tracker, whose emulated server is Python as on a real board."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from doit_project import write_project
from emulated_board import the_board
from rpc_boards import CPU, Python, board, tracker

pytestmark = [pytest.mark.nightly, pytest.mark.compiler, pytest.mark.emulator, pytest.mark.timeout(1200)]

MODELS = """\
models:
  digits: {source: {path: digits.onnx}}
  voice: {source: {path: voice.onnx}}
"""
TARGETS = """\
targets:
  pi4:
    kind: llvm
    mcpu: cortex-a72
    mtriple: aarch64-linux-gnu
    num-cores: 2
    device: {rpc: {tracker: "ADDRESS", key: pi4, timeout_s: 120}}
    tune: {trials_per_task: 2, ops: ["conv2d_add_relu"], number: 1, repeat: 1, min_repeat_ms: 1}
    benchmark: {repeat: 5}
"""


@pytest.mark.nights(2)
def test_doit_tunes_and_checks_on_an_arm64_board(tmp_path: Path, digits: Path, project_root: Path) -> None:
    emulated = the_board()
    python = Python(str(emulated.python), emulated.variables("cortex-a72"))
    with tracker(tmp_path) as address, board(address, "pi4", tmp_path, python):
        targets = TARGETS.replace("ADDRESS", address)
        project = write_project(tmp_path, digits, models=MODELS, targets=targets)
        shutil.copyfile(project_root / "models" / "silero_vad.onnx", project.root / "voice.onnx")
        ran = project.doit("strict=0")
    assert ran.code == 0, ran.output
    for name in ("digits", "voice"):
        result = json.loads((project.root / f"build/cells/{name}@pi4/result.json").read_text())
        assert result["max_abs_error"] < 1e-3
        assert (result["threads"], result["baselines"]) == (2, [])
        assert result["operators"]
    tune = json.loads((project.root / "build/cells/digits@pi4/tune.json").read_text())
    assert tune["measured_now"] >= 2
    (path, *_) = (project.root / "records/pi4").glob("*.json")
    assert {record["measured_on"] for record in json.loads(path.read_text())["records"]} == {CPU}
