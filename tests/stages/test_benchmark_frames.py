"""The benchmark stage of packages that take frames: times, the usual way beside them, and the gate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from frame_cells import frame_step, make_cell

from tvmbuild.benchmarking.frames.results import FrameResult
from tvmbuild.benchmarking.results import read_result
from tvmbuild.stages import benchmark

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_cell(tmp_path_factory.mktemp("framed"))


@pytest.fixture
def cell(built: Path, tmp_path: Path) -> Path:
    """A copy of the cell that a test may change."""
    for path in built.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    return tmp_path


def measure(folder: Path, *baselines: str) -> FrameResult:
    step = frame_step(folder, baselines)
    benchmark.run(step)
    result = read_result(json.loads(step.output("result").read_text()))
    assert result is not None
    assert result.frames is not None
    return result.frames


def test_frames_are_compared_and_timed_in_turns_with_opencv(cell: Path) -> None:
    pytest.importorskip("cv2")
    found = measure(cell, "onnxruntime")
    print(found)
    assert found.frame == "bgr8 [50, 80, 3], bilinear"
    assert found.check.frames == 2
    assert found.check.results > 0
    assert found.check.largest_steps <= 1.25
    assert found.notes == ()
    (rival,) = found.rivals
    assert (rival.name, found.absent) == ("opencv", ())
    for times in (found.times, rival.times):
        assert times is not None
        assert list(times.parts_ms) == ["prepare", "network", "result"]
        assert times.latency.median.value <= times.latency.p95 <= times.p99
        assert times.latency.repeat >= 200
        assert times.cpu_ms > 0
    assert rival.agreement.startswith(f"the same {found.found} boxes, scores within ")
