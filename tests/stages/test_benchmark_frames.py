"""The benchmark stage of packages that take frames: times, the usual way beside them, and the gate."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from detector_nets import make_detector
from device_kinds import attributes_of
from frame_cells import FRAMES, SIZE, frame_step, make_cell
from rpc_boards import board, count_free, tracker, wait_until
from small_package import change_package
from ssh_board import ssh_board

from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, RpcDevice, SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.postprocess_specs import Boxes, Classes
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.benchmarking.emulated import run_emulated
from tvmbuild.benchmarking.frames import contest, references
from tvmbuild.benchmarking.frames.results import FrameResult
from tvmbuild.benchmarking.history import read_history
from tvmbuild.benchmarking.results import read_result
from tvmbuild.benchmarking.stand_in import run_package
from tvmbuild.devices.local.device import LOCAL
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.stages import benchmark

pytestmark = pytest.mark.compiler
RULES = Preprocess(resize="letterbox")


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


def measure(folder: Path, *baselines: str, device: DeviceSpec | None = None) -> FrameResult:
    step = frame_step(folder, baselines, device or LocalDevice())
    benchmark.run(step)
    result = read_result(json.loads(step.output("result").read_text()))
    assert result is not None
    assert result.frames is not None
    return result.frames


def refuse(folder: Path, **changes: Any) -> str:
    """Return the message of a cell whose package has changes in its metadata, so that its code does not fit them."""
    package = folder / "net-here.tar"
    change_package(package, package, **changes)
    step = frame_step(folder, ())
    with pytest.raises(TvmbuildError) as caught:
        benchmark.run(step)
    assert not step.output("result").exists()
    assert "please report it; meanwhile leave out `" in str(caught.value.hint)
    return caught.value.message


def test_frames_are_compared_and_timed_in_turns_with_opencv(cell: Path) -> None:
    pytest.importorskip("cv2")
    found = measure(cell, "onnxruntime")
    assert found.frame == "bgr8 [50, 80, 3], bilinear"
    assert found.check.frames == 2
    assert found.check.results > 0
    assert found.check.largest_steps <= 1.25
    (rival,) = found.rivals
    assert (rival.name, found.absent) == ("opencv", ())
    for times in (found.times, rival.times):
        assert times is not None
        assert list(times.parts_ms) == ["prepare", "network", "result"]
        assert times.latency.median.value <= times.latency.p95 <= times.p99
        assert times.latency.repeat >= 200
        assert times.cpu_ms > 0
    assert rival.agreement.startswith(f"the same {found.found} boxes, scores within ")
    (entry,) = read_history(Layout(cell).history).entries
    assert entry.result.frames == found


def test_without_opencv_a_line_says_so(cell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "has_opencv", lambda: False)
    found = measure(cell, "onnxruntime")
    assert found.times is not None
    assert found.rivals == ()
    told = "OpenCV is not installed; `pip install opencv-python-headless` brings it"
    assert found.absent == (("opencv", told),)


def test_results_of_an_unknown_kind_are_said_and_frames_timed(cell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "REFERENCES", {})
    found = measure(cell)
    assert found.times is not None
    assert (found.check.frames, found.check.results, found.found) == (2, 0, None)
    assert found.notes[0] == "results of the kind `boxes` are not compared: they have no reference yet"


def test_a_package_without_a_result_has_two_parts(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    found = measure(make_cell(tmp_path, postprocess=()), "onnxruntime")
    assert found.times is not None
    assert list(found.times.parts_ms) == ["prepare", "network"]
    assert (found.check.frames, found.check.results) == (2, 0)
    assert found.rivals[0].agreement.startswith("outputs within ")


def test_results_are_compared_without_frames(tmp_path: Path) -> None:
    found = measure(make_cell(tmp_path, make_detector([[1, 50]], SIZE), frames=(), postprocess=(Classes(most=3),)))
    assert (found.frame, found.times) == (None, None)
    assert (found.check.frames, found.check.results) == (0, 3)
    assert found.notes == ("no frame is timed: the model's `preprocess` names no `frame`",)


def test_a_wrong_scale_fails_the_cell(cell: Path) -> None:
    # Off by less than a step of a byte everywhere, but no byte has such a value.
    message = refuse(cell, preprocess=Preprocess(resize="letterbox", scale=1 / 255.5))
    assert message.startswith("benchmark:net@here: the package prepares a frame wrongly (bgr8 [50, 80, 3], bilinear): ")
    assert "and no byte has this value" in message


def test_exchanged_colours_fail_the_cell(cell: Path) -> None:
    message = refuse(cell, preprocess=Preprocess(resize="letterbox", color="bgr"))
    assert "the package prepares a frame wrongly" in message
    assert " steps of a byte, where 1.25 is allowed" in message


def test_another_encoding_fails_the_cell(cell: Path) -> None:
    frames = (FRAMES[0], replace(FRAMES[1], encoding="nv21"))
    assert "the package prepares a frame wrongly (nv21 [75, 80], antialias): " in refuse(cell, frames=frames)


def test_boxes_that_suppress_other_classes_fail_the_cell(cell: Path) -> None:
    message = refuse(cell, postprocess=(Boxes("yolov8", score=0.3, overlap=0.3, most=40, agnostic=True),))
    assert "the package makes wrong results (bgr8 [50, 80, 3], bilinear, score 0.3): boxes " in message
    assert " of their union, over 0.3" in message


@pytest.mark.nightly
@pytest.mark.ssh
@pytest.mark.timeout(1200)
def test_frames_are_compared_and_timed_on_a_board_without_python(cell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell / "ssh").mkdir()
    with ssh_board(cell / "ssh") as found_board:
        monkeypatch.setenv("PATH", found_board.path)
        found = measure(cell, device=SshDevice("board"))
        package = cell / "net-here.tar"
        change_package(package, package, preprocess=Preprocess(resize="letterbox", color="bgr"))
        with pytest.raises(TvmbuildError, match="the package prepares a frame wrongly"):
            measure(cell, device=SshDevice("board"))
    assert found.times is not None
    assert list(found.times.parts_ms) == ["prepare", "network"]
    assert found.times.cpu_ms > 0
    assert found.check.frames == 2
    assert found.check.results > 0
    assert (found.notes, found.rivals, found.absent) == ((), (), ())


@pytest.mark.nightly
@pytest.mark.ssh
@pytest.mark.timeout(1200)
def test_results_without_frames_are_not_measured_on_a_board_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cell(tmp_path, make_detector([[1, 50]], SIZE), frames=(), postprocess=(Classes(most=3),))
    (tmp_path / "ssh").mkdir()
    with ssh_board(tmp_path / "ssh") as found_board:
        monkeypatch.setenv("PATH", found_board.path)
        found = measure(tmp_path, device=SshDevice("board"))
    assert (found.times, found.check.frames, found.check.results) == (None, 0, 0)
    told = "the program on a board without Python makes results of frames alone, and the package takes none"
    assert found.notes == (f"frames and results are not measured on this device: {told}",)


def test_frames_are_compared_and_timed_on_a_board(cell: Path) -> None:
    with tracker(cell) as address, board(address, "pc", cell):
        wait_until(lambda: count_free(address, "pc") == 1)
        found = measure(cell, device=RpcDevice(address, "pc", timeout_s=30.0))
    assert found.times is not None
    assert list(found.times.parts_ms) == ["prepare", "network", "result"]
    assert found.check.frames == 2
    assert found.check.results > 0
    assert (found.rivals, found.absent) == ((), ())


def test_frames_are_compared_on_an_emulated_board(cell: Path) -> None:
    trial = replace(benchmark.make_trial(frame_step(cell)), device=replace(LOCAL, emulated=True))
    found = run_emulated(trial).frames
    assert found is not None
    assert (found.times, found.notes, found.check.frames) == (None, (), 2)
    assert found.check.results > 0
    package = cell / "net-here.tar"
    change_package(package, package, preprocess=Preprocess(resize="letterbox", color="bgr"))
    with pytest.raises(TvmbuildError, match="the package prepares a frame wrongly"):
        run_emulated(trial)


@pytest.mark.vulkan
def test_frames_are_compared_on_a_device_in_place_of_the_targets(tmp_path: Path) -> None:
    target = PackageTarget("here", "vulkan", attributes_of("vulkan"), FrozenMap({"mcpu": "x86-64"}))
    cell = make_cell(tmp_path, target=target)
    trial = benchmark.make_trial(frame_step(cell))
    assert str(run_package(trial).frames).startswith("2 frames within ")
    package = cell / "net-here.tar"
    change_package(package, package, preprocess=Preprocess(resize="letterbox", color="bgr"))
    with pytest.raises(TvmbuildError, match="validate:net@here: the package prepares a frame wrongly"):
        run_package(trial)
