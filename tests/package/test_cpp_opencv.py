"""A cv::Mat is a frame in C++, and gives the result that its bytes give in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from cpp_programs import SOURCES, install_programs, run_program
from detector_nets import make_detector
from made_once import make_once
from small_package import ANY_X86

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import Boxes, Postprocess, Segmentation
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.package.results import Box, Map
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.tvm_files import find_headers, find_runtime

pytestmark = [pytest.mark.compiler, pytest.mark.toolchain, pytest.mark.opencv_headers]
FRAMES = (
    Frame(36, 50, "bgr8"),
    Frame(36, 50, "rgb8"),
    Frame(36, 50, "bgra8"),
    Frame(36, 50, "mono8"),
    Frame(24, 50, "nv12"),  # as many bytes in a matrix of the same form
    Frame(20, 30, "yuyv"),
    Frame(18, 30, "bgr8", stride=128),
)
NETS: dict[str, tuple[list[tuple[int, ...]], Postprocess]] = {
    "boxes": ([(1, 9, 60)], Boxes("yolov8", score=0.6)),
    "classes": ([(1, 5, 16, 20)], Segmentation()),
}
"""Name of a package → the shapes of its outputs, and the results that it makes."""
_BUILD = """
import sys
from pathlib import Path
from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import *
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
for name, options in OPTIONS.items():
    target = PackageTarget("here", "llvm", ATTRIBUTES)
    package = build_package(Path(f"{name}.onnx"), target, options=BuildOptions("net", **options))
    write_package(Path(f"{name}.tar"), package)
"""
_PROGRAM = r"""
// mats PACKAGE BYTES ROWS COLUMNS TYPE HOW ENCODING: prints the boxes, or writes the classes to BYTES.classes. HOW is
// whole, part (of a matrix with more columns), last (such a part at the end of the memory), or a step in bytes.
#include <opencv.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

int main(int, char **words) try {
  tvmbuild::Session session(words[1]);
  std::ifstream file(words[2], std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  int rows = std::atoi(words[3]), columns = std::atoi(words[4]), type = std::atoi(words[5]);
  std::string how = words[6];
  cv::Mat given(rows, columns, type, bytes.data()), mat = given;
  size_t step = how.find_first_not_of("0123456789") == std::string::npos ? std::stoul(how) : 0;
  std::vector<char> room(step * size_t(rows), 1);
  if (step != 0) mat = cv::Mat(rows, columns, type, room.data(), step);
  if (how == "part") mat = cv::Mat(rows + 9, columns + 5, type)(cv::Rect(2, 3, columns, rows));
  if (how == "last") mat = cv::Mat(rows, columns + 26, type)(cv::Rect(26, 0, columns, rows));
  if (mat.data != given.data) given.copyTo(mat);
  tvmbuild::FrameOptions options;
  options.encoding = words[7];
  const tvmbuild::Results &results = tvmbuild::run_frame(session, mat, options);
  for (const tvmbuild::Box &box : results.boxes)
    std::printf("%.9g %d %.9g %.9g %.9g %.9g\n", box.score, box.index, box.x, box.y, box.width, box.height);
  cv::Mat classes = tvmbuild::as_mat(results.segmentation);
  if (!tvmbuild::as_mat(results.masks).empty() || classes.empty() != (results.segmentation.pixels == nullptr)) return 3;
  std::ofstream written(std::string(words[2]) + ".classes", std::ios::binary);
  for (int y = 0; y < classes.rows; y++) written.write(classes.ptr<char>(y), classes.cols);
} catch (const tvmbuild::Error &error) {
  std::printf("error: %s\n", error.what());
  return 1;
}
"""


def build_packages(folder: Path) -> None:
    """Build a package for each of NETS in a separate process."""
    options = {}
    for name, (shapes, asked) in NETS.items():
        onnx.save(make_detector(shapes, (32, 40)), folder / f"{name}.onnx")
        options[name] = {"preprocess": Preprocess(resize="letterbox"), "frames": FRAMES, "postprocess": (asked,)}
    code = _BUILD.replace("ATTRIBUTES", repr(ANY_X86)).replace("OPTIONS", repr(options))
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(folder))
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, cwd=folder, check=True, timeout=300)


@pytest.fixture
def packages() -> Path:
    return make_once("packages of cv::Mat", build_packages)


@pytest.fixture
def program() -> Path:
    """The program of this file."""

    def build(folder: Path) -> None:
        (folder / "mats.cpp").write_text(_PROGRAM)
        library = install_programs().parent / "build" / "libtvmbuild.a"
        libraries = [str(each) for each in find_runtime()]
        command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", f"-I{find_headers()}"]
        command += ["-isystem", "/usr/include/opencv4", str(folder / "mats.cpp"), str(library), "-lopencv_core"]
        command += ["-Wl,--no-as-needed", *libraries, *(f"-Wl,-rpath,{Path(each).parent}" for each in libraries)]
        subprocess.run([*command, "-lpthread", "-ldl", "-o", str(folder / "mats")], check=True)

    return make_once("C++ program of cv::Mat", build) / "mats"


def draw_frames() -> Iterator[tuple[Frame, np.ndarray]]:
    """Yield each frame, without gaps between rows, with bytes of its own."""
    generator = np.random.default_rng(3)
    for frame in FRAMES:
        shape = Frame(frame.height, frame.width, frame.encoding).shape
        least = generator.integers(0, 100, shape[2:] or (1,))
        yield frame, generator.integers(least, least + 100, shape).astype(np.uint8)


def ask(program: Path, package: Path, value: np.ndarray, how: object, encoding: str) -> str:
    """Return the output of the program for this array as a matrix."""
    path = package.parent / "frame.raw"
    path.write_bytes(value.tobytes())
    channels = value.shape[2] if value.ndim > 2 else 1
    depth = {"uint8": 0, "float32": 5}[value.dtype.name]  # OpenCV's numbers
    return run_program(program, package, path, *value.shape[:2], depth + 8 * (channels - 1), how, encoding).stdout


@pytest.mark.parametrize("how", ["whole", "part", "last", 512, 128])
def test_matrices_give_pythons_results(packages: Path, program: Path, tmp_path: Path, how: object) -> None:
    named = {"bgr8": "", "bgra8": "", "mono8": ""}  # what the channels say
    for name in NETS:
        package = tmp_path / f"{name}.tar"
        package.symlink_to(packages / f"{name}.tar")
        with Session(package) as session:
            for frame, value in draw_frames():
                if isinstance(how, int) and how < value[0].size:
                    continue
                given = value
                if frame.stride is not None:
                    given = np.zeros(frame.shape, np.uint8)
                    given[:, : value[0].size] = value.reshape(frame.height, -1)
                want = session.run_frame(given, frame.encoding)
                assert isinstance(want, tuple)
                got = ask(program, package, value, how, named.get(frame.encoding, frame.encoding))
                boxes = [each for each in want if isinstance(each, Box)]
                shown = [(b.score, b.index, b.x, b.y, b.width, b.height) for b in boxes]
                lines = [" ".join(f"{np.float32(each):.9g}" for each in numbers) for numbers in shown]
                assert got.splitlines() == lines, frame
                assert bool(lines) == (name == "boxes")
                maps = b"".join(each.classes.tobytes() for each in want if isinstance(each, Map))
                assert (tmp_path / "frame.raw.classes").read_bytes() == maps


def test_matrices_that_are_no_frame(packages: Path, program: Path, tmp_path: Path) -> None:
    package = tmp_path / "boxes.tar"
    package.symlink_to(packages / "boxes.tar")
    known = ", ".join(f"{each.encoding} {each.height}x{each.width}" for each in FRAMES)
    for shape, encoding, named in (
        ((36, 51, 3), "", "bgr8"),
        ((20, 30, 2), "", "mono8"),
        ((36, 50), "bgr8", "bgr8"),
        ((36, 150), "nv21", "nv21"),
    ):
        rows, columns, channels = *shape[:2], shape[2] if len(shape) > 2 else 1
        told = f"a cv::Mat with {rows} rows, {columns} columns and {channels} channels"
        got = ask(program, package, np.zeros(shape, np.uint8), "whole", encoding)
        assert got == f"error: net takes no {named} of {told}; it takes {known}\n"
    not_bytes = "a cv::Mat is a frame if it has rows, columns and 8 bits a channel (CV_8U): convert it, or fill it"
    for value in (np.zeros((36, 50, 3), np.float32), np.zeros((0, 50, 3), np.uint8)):
        assert ask(program, package, value, "whole", "") == f"error: {not_bytes}\n"
