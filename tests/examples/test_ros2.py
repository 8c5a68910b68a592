"""The detector for ROS 2: pictures with steps and encodings, the newest picture, and the wire by Cyclone DDS."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cpp_programs import SUPPORT, build_by_cmake, install_programs, run_program
from detector_nets import make_detector
from made_once import make_once
from small_package import build_package

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import Boxes
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.package.results import Box
from tvmbuild.package.runtime.session import Session

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ros2"
LABELS = ("one", "two", "three", "four", "five")
FRAMES = (
    Frame(90, 120, "bgr8"),
    Frame(40, 60, "uyvy"),
    Frame(40, 60, "nv12"),
    Frame(30, 50, "mono8", stride=64),
)
LOCAL = """<CycloneDDS><Domain>
<General><AllowMulticast>false</AllowMulticast><Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces>
</General>
<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers></Discovery>
</Domain></CycloneDDS>"""
"""Cyclone DDS on this machine's loopback device only."""


def build_programs(folder: Path, *options: str) -> None:
    """Build the programs of tests/support/ros2, and the detector of the wire where there is Cyclone DDS."""
    found = [f"-DCMAKE_PREFIX_PATH={install_programs()}", f"-DROS2_EXAMPLE={EXAMPLE}"]
    build_by_cmake(folder, *found, *options, source=SUPPORT / "ros2")


@pytest.fixture
def programs() -> Path:
    return make_once("programs for ROS 2", build_programs) / "build"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    onnx.save(make_detector([(1, 9, 60)], (64, 80)), tmp_path / "boxes.onnx")
    return build_package(
        tmp_path / "boxes.onnx",
        tmp_path,
        preprocess=Preprocess(resize="letterbox"),
        frames=FRAMES,
        postprocess=(Boxes("yolov8", score=0.6),),
        labels=LABELS,
    )


def draw(frame: Frame) -> np.ndarray:
    """Return the bytes of a frame, without gaps between its rows."""
    shape = Frame(frame.height, frame.width, frame.encoding).shape
    return np.random.default_rng(frame.width).integers(0, 120, shape).astype(np.uint8)


def list_detections(boxes: tuple[Box, ...]) -> list[tuple[str, list[float]]]:
    """Return name, score, centre and size of boxes as C++ computes them, from float32."""
    listed = []
    for box in boxes:
        x, y, width, height = (float(np.float32(each)) for each in (box.x, box.y, box.width, box.height))
        numbers = [float(np.float32(box.score)), x + width / 2, y + height / 2, width, height]
        listed.append((box.label or str(box.index), numbers))
    return listed


def detect(program: Path, package: Path, frame: Frame, path: Path, *words: object, **fields: Any) -> Any:
    """Run `detect` on a picture; return its detections, or its error."""
    names = {"uyvy": "yuv422", "yuyv": "yuv422_yuy2"}  # of ROS
    form = {
        "encoding": names.get(frame.encoding, frame.encoding),
        "height": frame.height,
        "width": frame.width,
    } | fields
    arguments = [form["encoding"], form["height"], form["width"], form["step"], form.get("score", "-"), path, *words]
    done = run_program(program, package, *arguments)
    if done.returncode != 0:
        return done.stderr
    lines = [line.rsplit(" ", 5) for line in done.stdout.splitlines()]
    return [(name, [float(each) for each in numbers]) for name, *numbers in lines]


@pytest.mark.compiler
@pytest.mark.toolchain
def test_pictures_of_every_form_give_pythons_detections(programs: Path, package: Path, tmp_path: Path) -> None:
    path = tmp_path / "picture.raw"
    with Session(package) as session:
        for frame in FRAMES:
            value = draw(frame)
            rows = value.reshape(len(value), -1)
            given = np.zeros(frame.shape, np.uint8).reshape(len(value), -1)
            given[:, : rows.shape[1]] = rows
            found = session.run_frame(given.reshape(frame.shape), frame.encoding)
            want = list_detections(found.boxes)  # type: ignore[union-attr]
            assert len(want) > 2
            for step in (rows.shape[1], given.shape[1], rows.shape[1] + 37):
                padded = np.full((len(rows), step), 255, np.uint8)
                padded[:, : rows.shape[1]] = rows
                for size in (padded.size, (len(rows) - 1) * step + rows.shape[1]):  # the last row may end early
                    path.write_bytes(padded.tobytes()[:size])
                    assert detect(programs / "detect", package, frame, path, step=step) == want, (frame, step)


@pytest.mark.compiler
@pytest.mark.toolchain
def test_thresholds_and_classes_are_options(programs: Path, package: Path, tmp_path: Path) -> None:
    frame, path = FRAMES[0], tmp_path / "picture.raw"
    path.write_bytes(draw(frame).tobytes())
    with Session(package) as session:
        low = session.run_frame(draw(frame), frame.encoding, score=0.1).boxes  # type: ignore[union-attr]
    names = {box.label for box in low}
    assert len(names) > 1
    program = programs / "detect"
    assert detect(program, package, frame, path, step=360, score=0.1) == list_detections(low)
    for wished in (["three"], ["2"], ["", "three", "0"]):
        known = [LABELS[int(each)] if each.isdigit() else each for each in wished]
        want = [box for box in low if box.label in known]
        got = detect(program, package, frame, path, ",", *wished, step=360, score=0.1)
        assert got == list_detections(tuple(want)), wished


@pytest.mark.compiler
@pytest.mark.toolchain
def test_wrong_pictures_packages_and_classes_are_told(
    programs: Path, package: Path, digits: Path, tmp_path: Path
) -> None:
    frame, path = FRAMES[0], tmp_path / "picture.raw"
    path.write_bytes(draw(frame).tobytes())
    program = programs / "detect"
    known = ", ".join(f"{each.encoding} of {each.width}x{each.height}" for each in FRAMES)
    told = detect(program, package, frame, path, step=363, width=121)
    assert told == f"error: the package takes no bgr8 of 121x90; it takes {known}\n"
    cut = "error: the picture is cut short: bgr8 of 120x90 with a step of {} has {} bytes, and 32400 came\n"
    assert detect(program, package, frame, path, step=400) == cut.format(400, 89 * 400 + 360)
    assert detect(program, package, frame, path, step=0) == cut.format(0, 360)
    told = detect(program, package, frame, path, ",", "six", step=360)
    assert told == f"error: net knows no class six; it knows {', '.join(LABELS)}\n"
    (tmp_path / "plain").mkdir()
    told = detect(program, build_package(digits, tmp_path / "plain"), frame, path, step=360)
    assert told.startswith("error: net is no detector: its package needs")
    assert "cannot be read" in detect(program, tmp_path / "absent.tar", frame, path, step=360)


@pytest.mark.toolchain
def test_the_newest_picture_wins(programs: Path) -> None:
    assert run_program(programs / "newest").stdout == "0\n100\ndropped 99\n"


@pytest.mark.compiler
@pytest.mark.dds
def test_messages_of_ros_2_cross_the_wire(programs: Path, package: Path, tmp_path: Path) -> None:
    frame, pictures = FRAMES[0], tmp_path / "pictures"
    pictures.mkdir()
    values = [np.clip(draw(frame).astype(int) + 60 * number, 0, 255).astype(np.uint8) for number in range(3)]
    for number, value in enumerate(values):
        (pictures / f"{number}.raw").write_bytes(value.tobytes())
    environment = dict(os.environ, CYCLONEDDS_URI=LOCAL, ROS_DOMAIN_ID="0")
    command = [str(programs / "dds" / "dds_detector"), "image", "/detections", str(package), "--score", "0.5"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "net waits for pictures\n"
            peer = [sys.executable, str(SUPPORT / "ros2" / "wire.py"), str(pictures), "bgr8,90,120,360"]
            done = subprocess.run(peer, env=environment, capture_output=True, text=True, check=False, timeout=300)
        finally:
            process.send_signal(signal.SIGTERM)
        rest, told = process.communicate(timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert (process.returncode, told) == (0, "")
    assert re.fullmatch(r"\d+ pictures were dropped for newer ones\n", rest)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer[:3] for answer in answers] == [[number, 7, "camera"] for number in range(3)]
    with Session(package) as session:
        for value, (*_, detections) in zip(values, answers, strict=True):
            found = session.run_frame(value, frame.encoding, score=0.5)
            got = [(name, [score, *centre, *size]) for [[name, score]], centre, size in detections]
            assert got == list_detections(found.boxes)  # type: ignore[union-attr]
            assert got


@pytest.mark.compiler
@pytest.mark.dds
def test_wrong_arguments_of_the_detector_on_the_wire_are_told(programs: Path, package: Path) -> None:
    program = programs / "dds" / "dds_detector"
    for words, told in (
        ([], "usage: dds_detector IMAGE_TOPIC DETECTIONS_TOPIC PACKAGE"),
        (["image", "detections", package, "--score"], "--score needs a value"),
        (["image", "detections", package, "--score", "x"], "x is not a number"),
        (["image", "detections", "absent.tar"], "absent.tar cannot be read"),
    ):
        done = run_program(program, *words)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: {told}")


def test_the_packages_of_ros_name_what_they_use() -> None:
    """rclcpp is not here, so the node is compiled by workflow.yml in ROS' container; this compares its files."""
    node = EXAMPLE / "tvmbuild_detector"
    manifest = ET.parse(node / "package.xml").getroot()  # noqa: S314 - our own file
    depends = {each.text or "" for each in manifest.findall("depend")}
    cmake = (node / "CMakeLists.txt").read_text()
    assert {"rclcpp", "rclcpp_components", "sensor_msgs", "vision_msgs"} <= depends
    assert all(name in cmake for name in depends - {"tvmbuild_vendor"})
    vendor = ET.parse(EXAMPLE / "tvmbuild_vendor" / "package.xml").getroot()  # noqa: S314 - our own file
    assert vendor.findtext("name") in depends
    code = (node / "src" / "detector_node.cpp").read_text()
    launch = ast.parse((node / "launch" / "detector.launch.py").read_text())
    plugin = "tvmbuild_detector::DetectorNode"
    assert f"RCLCPP_COMPONENTS_REGISTER_NODE({plugin})" in code
    assert f'PLUGIN "{plugin}"' in cmake
    texts = {each.value for each in ast.walk(launch) if isinstance(each, ast.Constant)}
    declared = set(re.findall(r'declare_parameter<[^(]*>\("(\w+)"', code))
    assert {plugin, "score", "overlap", "classes", "packages"} <= texts
    assert {"score", "overlap", "classes", "packages"} <= declared


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.toolchain
def test_the_sanitizers_find_nothing(package: Path, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    checked = build_by_cmake(tmp_path / "library", "-DTVMBUILD_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug")
    options = (f"-DCMAKE_PREFIX_PATH={checked}", f"-DROS2_EXAMPLE={EXAMPLE}", "-DTVMBUILD_SANITIZE=ON")
    build_by_cmake(tmp_path / "programs", *options, "-DCMAKE_BUILD_TYPE=Debug", source=SUPPORT / "ros2")
    frame, path = FRAMES[3], tmp_path / "picture.raw"
    path.write_bytes(draw(frame).tobytes())  # without the gaps of the package's frame
    program = tmp_path / "programs" / "build" / "detect"
    assert isinstance(detect(program, package, frame, path, step=50), list)
    assert "cut short" in detect(program, package, frame, path, step=51)
    assert run_program(tmp_path / "programs" / "build" / "newest").returncode == 0
