"""A detector with two resolutions takes frames at each of them, with the results of a package of only this one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cpp_programs import SUPPORT, build_by_cmake, run_program
from detector_nets import make_varying_detector
from made_once import make_once
from sized_nets import SizedProject, make_project
from ssh_board import ssh_board

from tvmbuild.base.device_specs import SshDevice
from tvmbuild.base.frame_specs import Encoding, Frame
from tvmbuild.devices.frame_worker import FrameWorker, Thresholds
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.devices.ssh.device import open_ssh
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import write_arrays
from tvmbuild.package.results import Box
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler

MODEL = """\
models:
  net:
    source: {path: net.onnx}
    inputs: {images: {shape: [1, 3, H, W]}}
    sizes: {"H,W": [[32, 64], [64, 96]]}
    preprocess: {resize: letterbox, frame: [{size: [50, 80], encoding: bgr8}, {size: [50, 80], encoding: nv12}]}
    postprocess: {boxes: {form: yolov8, score: 0.3, overlap: 0.3, most: 40}}
"""
SMALL, LARGE = {"H": 32, "W": 64}, {"H": 64, "W": 96}


def build(folder: Path, models: str) -> None:
    done = make_project(folder, models, make_varying_detector()).run("compile")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def project() -> SizedProject:
    return SizedProject(make_once("detector with sizes", lambda folder: build(folder, MODEL)))


@pytest.fixture(scope="module")
def alone() -> SizedProject:
    models = MODEL.replace("[1, 3, H, W]", "[1, 3, 32, 64]").replace('    sizes: {"H,W": [[32, 64], [64, 96]]}\n', "")
    return SizedProject(make_once("detector of one size", lambda folder: build(folder, models)))


def draw(encoding: Encoding, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, Frame(50, 80, encoding).shape, np.uint8)


@pytest.mark.parametrize("encoding", ["bgr8", "nv12"])
def test_a_size_finds_what_a_package_of_this_size_finds(
    project: SizedProject, alone: SizedProject, encoding: Encoding
) -> None:
    frame = draw(encoding)
    with Session(project.package) as session, Session(alone.package) as only:
        small = session.at(SMALL)
        assert small.inputs[0].shape == (1, 3, 32, 64)
        np.testing.assert_array_equal(small.prepare_frame(frame, encoding), only.prepare_frame(frame, encoding))
        found = small.run_frame(frame, encoding)
        assert found == only.run_frame(frame, encoding)
        assert len(found) > 0
        large = session.run_frame(frame, encoding)
        assert large == session.at(LARGE).run_frame(frame, encoding)
        assert large != found
        if encoding == "bgr8":
            assert small.run_picture(frame) == only.run_picture(frame)
        outputs = small.run({"images": small.prepare_frame(frame, encoding)})
        assert len(small.make_results(outputs)) > 0
        with pytest.raises(TvmbuildError, match=r"the output found of net is float32 \[1, 7, 96\]"):
            session.make_results(outputs)


def test_a_session_of_a_size_shares_and_ends_with_the_whole(project: SizedProject) -> None:
    session = Session(project.package)
    small = session.at(SMALL)
    with pytest.raises(TvmbuildError, match="net has no size") as refused:
        session.at({"H": 32, "W": 96})
    assert refused.value.hint == "its sizes are H=32 W=64, H=64 W=96"
    with pytest.raises(TvmbuildError, match="has no size"):
        small.at(SMALL)
    assert small.sizes == ()
    session.close()
    with pytest.raises(TvmbuildError, match="is closed"):
        small.run_frame(draw("bgr8"))


def test_the_benchmark_compares_frames_at_every_size(project: SizedProject) -> None:
    done = project.run("benchmark")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((project.package.parent / "result.json").read_text())
    assert [each["size"] for each in result["sizes"]] == ["H32-W64"]
    log = (project.root / "build/logs/benchmark.net@v3.log").read_text()
    assert log.count("comparing frames and results with the reference") == 2


def test_a_size_that_is_no_picture_is_named(tmp_path: Path) -> None:
    models = MODEL.replace("[1, 3, H, W]", "[B, 3, 32, 64]").replace('{"H,W": [[32, 64], [64, 96]]}', "{B: [1, 2]}")
    models = models[: models.index("    postprocess:")]
    done = make_project(tmp_path, models, make_varying_detector()).run("simplify")
    assert done.returncode != 0
    assert "the input images of net is [2, 3, 32, 64]: no rgb picture in NCHW" in done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.ssh
def test_a_board_without_python_takes_frames_at_the_size_of_its_inputs(
    project: SizedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_arrays(tmp_path / "reference.npz", {"input:images": np.ones((1, 3, 32, 64), np.float32)})
    load = Load("tvm", project.package, tmp_path / "reference.npz", 2)
    (tmp_path / "locks").mkdir(mode=0o700)
    (tmp_path / "ssh").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "locks"))
    frames = [draw("bgr8"), draw("nv12")]
    with ssh_board(tmp_path / "ssh") as board, start_worker(load) as here:
        monkeypatch.setenv("PATH", board.path)
        with open_ssh(SshDevice("board")).start(load) as worker:
            there, ours = FrameWorker(worker, frames), FrameWorker(here, frames)
            got, want = there.compute(1), ours.compute(1)
            assert got["input"].shape == (1, 3, 32, 64)
            for name, value in want.items():
                np.testing.assert_array_equal(got[name], value)
            found = there.find(1, Thresholds())
            assert found == ours.find(1, Thresholds())
            assert len(found["boxes"]) > 0


@pytest.mark.toolchain
@pytest.mark.parametrize("size", [SMALL, None])
def test_cpp_finds_pythons_boxes_at_every_size(
    project: SizedProject, tmp_path: Path, size: dict[str, int] | None
) -> None:
    program = make_once("C++ sizes", lambda folder: build_by_cmake(folder, source=SUPPORT / "cpp_sizes"))
    frame = draw("nv12")
    (tmp_path / "frame").write_bytes(frame.tobytes())
    with Session(project.package, threads=2) as session:
        found = (session.at(size) if size else session).run_frame(frame, "nv12")
    words = [] if size is None else [",".join(f"{letter}={value}" for letter, value in size.items())]
    done = run_program(program / "build/sizes", project.package, tmp_path / "frame", "nv12", *words)
    assert done.returncode == 0, done.stderr
    got = [[np.float32(word) for word in line.split()] for line in done.stdout.splitlines()]
    boxes = [each for each in found if isinstance(each, Box)]
    want = [[each.x, each.y, each.width, each.height, each.score, each.index] for each in boxes]
    np.testing.assert_array_equal(got, np.array(want, np.float32))
    assert len(boxes) == len(found) > 0
    refused = run_program(program / "build/sizes", project.package, tmp_path / "frame", "nv12", "H=32,W=96")
    assert "net has no size H=32 W=96; its sizes are H=32 W=64, H=64 W=96" in refused.stderr
