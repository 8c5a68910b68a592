"""C++ programs make the same results of a frame as Python, and refuse the same frames and packages."""

from __future__ import annotations

import io
import json
import math
import os
import re
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from c_programs import build_c_program
from cpp_programs import SOURCES, install_programs, run_program, use_pythons_vulkan
from detector_nets import add_factor, make_detector
from detector_tails import detect, torchvision
from device_kinds import KINDS, attributes_of
from made_once import make_once
from result_cases import CASES, make_case
from small_package import build_package
from vulkan_devices import HOST

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frame_specs import Crop, Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import (
    BOX_FORMS,
    Boxes,
    Classes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Raw,
    Segmentation,
    Text,
    Vector,
    kind_of,
    postprocess_to_json,
)
from tvmbuild.base.postprocess_specs import KINDS as RESULT_KINDS
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.results import Box, Class, Map, Output, Point, Results
from tvmbuild.package.results import Text as TextFound
from tvmbuild.package.results import Vector as VectorFound
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.tvm_files import find_headers, find_runtime

pytestmark = [pytest.mark.compiler, pytest.mark.toolchain]
SIZE = (64, 80)
FRAMES = (
    Frame(90, 120, "bgr8"),
    Frame(90, 120, "rgb8", "bilinear"),
    Frame(120, 90, "rgb8"),
    Frame(90, 120, "yuyv"),
    Frame(90, 120, "nv12", "nearest"),
    Frame(91, 121, "mono8"),
    Frame(90, 120, "bayer_grbg8", "area", stride=128, crop=Crop(10, 6, 70, 100)),
)
LABELS = ("one", "a long name with spaces, ä", "three", "four")  # of five classes
CHARACTERS = ("a", "ä", "", "文字", "e", "f")  # of eight symbols beside the blank


@dataclass(frozen=True)
class Net:
    """A network of this file, and the result that its package makes."""

    shapes: tuple[tuple[int, ...], ...]
    """The shapes of its outputs. Empty: it ends with its own suppression."""
    asked: Postprocess | tuple[Postprocess, ...]
    labels: tuple[str, ...] | None = None
    resize: Any = "letterbox"
    spread: float = 0
    factor: float | None = None
    """The value of another input, by which the network multiplies its first output. None: it has no other input."""
    limit: float | None = None
    """Elements of its first output above it are listed by a NonZero in a further output. None: there is none."""

    @property
    def model(self) -> onnx.ModelProto:
        """The network."""
        if not self.shapes:
            return detect(torchvision(), SIZE)
        model = make_detector(self.shapes, SIZE, spread=self.spread)
        if self.limit is not None:
            add_places(model, self.limit)
        return model if self.factor is None else add_factor(model)

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The inputs beside the picture."""
        return {} if self.factor is None else {"factor": np.full(1, self.factor, np.float32)}

    @property
    def results(self) -> tuple[Postprocess, ...]:
        """The results of its package."""
        return self.asked if isinstance(self.asked, tuple) else (self.asked,)

    @property
    def options(self) -> dict[str, Any]:
        """The options that its package is built with."""
        rules = Preprocess(None if self.factor is None else "picture", resize=self.resize)
        return {
            "preprocess": rules,
            "frames": FRAMES,
            "postprocess": self.results,
            "labels": self.labels,
        }


_FACTOR = 0.75
NETS = {
    "boxes": Net(((1, 9, 60),), Boxes("yolov8", score=0.6, most=300), LABELS),
    "masks": Net(((1, 12, 80), (1, 6, 16, 20)), Masks("yolov8", score=0.6, overlap=0.3, most=70), spread=20),
    "keypoints": Net(((1, 17, 80),), Keypoints("yolov8", score=0.6, overlap=0.3, most=70, points=4), spread=20),
    "places": Net(((1, 13, 80),), Keypoints("yolov8", overlap=0.3, most=70, points=4, values=2), LABELS, spread=20),
    "classes": Net(((1, 20),), Classes(most=7), resize="stretch"),
    "few": Net(((1, 3),), Classes(most=7), LABELS),
    "segmentation": Net(((1, 5, 16, 20),), Segmentation(), LABELS, "crop", 1),
    "text": Net(((1, 30, 9),), Text(activation="softmax"), CHARACTERS),
    "last": Net(((30, 1, 9),), Text(blank="last")),
    "vector": Net(((1, 300),), Vector()),
    "heatmaps": Net(((1, 5, 16, 20),), Heatmaps(), LABELS),
    "counted": Net((), Boxes("separate", ("end1", "end0", "end2"), score=0.4), LABELS),
    "outputs": Net(((1, 7), (1, 3, 4)), ()),
    "counted rows": Net((), ()),
    "counted columns": Net(((1, 9, 60),), (), limit=0.5),
    "another input": Net(((1, 9, 60),), Boxes("yolov8", score=0.6), LABELS, factor=_FACTOR),
    "several": Net(
        ((1, 5, 16, 20), (1, 17, 80), (1, 20)),
        (
            Keypoints("yolov8", ("out1",), 0.6, 0.3, 70, points=4),
            Classes(("out2",), most=3, labels=("first", "second", "third")),
            Segmentation(("out0",), labels=("ground", "ä")),
        ),
        LABELS,
        spread=20,
    ),
    "in the input's pixels": Net(
        ((1, 12, 80), (1, 6, 16, 20), (1, 5, 16, 20), (2, 7)),
        (
            Masks("yolov8", ("out0", "out1"), 0.6, 0.3, 70, resolution="input"),
            Segmentation(("out2",), resolution="input"),
            Raw(("out3", "out2")),
        ),
        spread=20,
    ),
    "repeated": Net(
        ((1, 5, 16, 20), (1, 3, 8, 10), (1, 20), (1, 6), (1, 5, 16, 20), (1, 2, 16, 20)),
        (
            Classes(("out2",), most=3),
            Classes(("out3",), most=9, labels=("first", "second")),
            Segmentation(("out0",)),
            Segmentation(("out1",), "nearest", labels=("ground", "ä")),
            Heatmaps(("out4",)),
            Heatmaps(("out5",), labels=("left", "right")),
        ),
        LABELS,
        spread=1,
    ),
}
"""Name of a package → its network. There is one for every kind of result."""


@dataclass(frozen=True)
class CaseNet:
    """A case of `result_cases`, as a network of this file."""

    case: str

    @property
    def model(self) -> onnx.ModelProto:
        """The network."""
        return make_case(self.case)

    @property
    def options(self) -> dict[str, Any]:
        """The options that its package is built with."""
        return {
            "preprocess": Preprocess(resize="letterbox"),
            "frames": FRAMES[1:3],
            "postprocess": (CASES[self.case][1],),
            "labels": LABELS,
        }


_BUILD = """
import sys
from pathlib import Path
from tvmbuild.base.frame_specs import Crop, Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import *
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
folder = Path(sys.argv[1])
for name, options in OPTIONS.items():
    package = build_package(folder / f"{name}.onnx", TARGET, options=BuildOptions("net", **options))
    write_package(folder / f"{name}.tar", package)
"""
_PROGRAM = r"""
// frames PACKAGE FILE CALLS WIDTH OTHER: takes two frames of rgb8 of the same bytes and of these widths. It writes both
// results to FILE.results and the first one's input to FILE.prepared. It prints how many results differ between aligned
// and other addresses of the bytes, how often lower thresholds give more boxes, and how often this program, not TVM,
// allocated after the first frames.
#include <tvmbuild.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>

extern "C" const char __executable_start, etext;
static long allocated = 0;

void *operator new(std::size_t size) {
  const char *caller = static_cast<const char *>(__builtin_return_address(0));
  allocated += caller >= &__executable_start && caller < &etext;
  void *memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

static std::string describe(const tvmbuild::Results &results) {
  std::string all;
  auto add = [&](const void *data, size_t size) { all.append(static_cast<const char *>(data), size); };
  auto add_all = [&](auto... values) { (add(&values, sizeof(values)), ...); };
  auto add_text = [&](std::string_view text) { all.append(text) += '\0'; };
  auto add_map = [&](const tvmbuild::Map &map) {
    if (map.pixels == nullptr) return;
    add_all(map.height, map.width);
    add(map.pixels, size_t(map.height) * size_t(map.width));
  };
  auto add_points = [&](const auto &points) {
    for (const tvmbuild::Point &each : points) {
      add_all(each.x, each.y, each.score, each.index);
      add_text(each.label);
    }
  };
  for (const tvmbuild::Box &each : results.boxes) {
    add_all(each.x, each.y, each.width, each.height, each.score, each.index);
    add_text(each.label);
    add_points(each.points);
  }
  add_map(results.masks);
  for (const tvmbuild::Class &each : results.classes) {
    add_all(each.score, each.index);
    add_text(each.label);
  }
  for (const tvmbuild::Map &each : results.segmentations) add_map(each);
  add_text(results.text.text);
  add_all(results.text.score);
  for (int symbol : results.text.symbols) add_all(symbol);
  for (float value : results.vector) add_all(value);
  add_points(results.points);
  for (const tvmbuild::Tensor &each : results.outputs) {
    add(each.info().shape.data(), each.info().shape.size() * sizeof(int64_t));
    add(each.data(), each.info().bytes());
  }
  return all;
}

int main(int, char **words) {
  tvmbuild::Session session(words[1]);
  std::ifstream file(words[2], std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(64, (bytes.size() + 127) / 64 * 64));
  std::vector<tvmbuild::Tensor> inputs, others;
  for (const tvmbuild::TensorInfo &each : session.info().inputs) inputs.emplace_back(each);
  for (size_t i = 1; i < inputs.size(); i++) {
    others.emplace_back(inputs[i].info());
    *others.back().as<float>() = FACTOR;
  }
  std::vector<tvmbuild::Tensor> want = session.run(inputs);
  tvmbuild::FrameOptions options[3];
  for (tvmbuild::FrameOptions &each : options) {
    each.encoding = "rgb8";
    each.inputs = others;
  }
  options[0].width = options[2].width = std::atoi(words[4]);
  options[1].width = std::atoi(words[5]);
  const auto &made = session.info().postprocess;
  if (!made.empty() && made[0].score) options[2].score = -9;
  if (!made.empty() && made[0].overlap) options[2].overlap = 1;
  auto *given = reinterpret_cast<uint8_t *>(bytes.data());
  tvmbuild::Tensor prepared = session.prepare_frame(given, bytes.size(), options[0]);
  std::ofstream(std::string(words[2]) + ".prepared", std::ios::binary)
      .write(static_cast<char *>(prepared.data()), static_cast<std::streamsize>(prepared.info().bytes()));
  std::string first[3];
  long begun = 0, counted = 0;
  int different = 0, more = 0;
  for (int i = 0; i < std::atoi(words[3]); i++) {
    uint8_t *at = memory + i % 3;
    std::memcpy(at, bytes.data(), bytes.size());
    size_t found[3];
    for (int which = 0; which < 3; which++) {
      allocated = 0;
      const tvmbuild::Results &results = session.run_frame(at, bytes.size(), options[which]);
      (i < 3 ? begun : counted) += allocated;  // the first at another address needs memory too
      found[which] = results.boxes.size();
      std::string described = describe(results);
      if (i == 0) first[which] = described;
      different += described != first[which];
    }
    more += found[2] > found[0];
  }
  session.call();  // the inputs that were bound before the frames
  different += std::memcmp(session.outputs()[0].data(), want[0].data(), want[0].info().bytes()) != 0;
  std::ofstream(std::string(words[2]) + ".results", std::ios::binary) << first[0] << first[1];
  std::printf("different %d more %d allocated %ld, %d at first\n", different, more, counted, begun > 0);
  std::free(memory);
}
"""


def add_places(model: onnx.ModelProto, limit: float) -> None:
    """Let the model return the places, [rank, count], of its first output's elements above a limit."""
    first, graph = model.graph.output[0], model.graph
    graph.initializer.append(onnx.numpy_helper.from_array(np.float32(limit), "limit"))
    graph.node.append(onnx.helper.make_node("Greater", [first.name, "limit"], ["above"]))
    graph.node.append(onnx.helper.make_node("NonZero", ["above"], ["places"]))
    rank = len(first.type.tensor_type.shape.dim)
    graph.output.append(onnx.helper.make_tensor_value_info("places", onnx.TensorProto.INT64, [rank, "count"]))


def build_packages(kind: str, folder: Path, nets: Mapping[str, Net | CaseNet] = NETS) -> None:
    """Build a package for each network in a separate process."""
    for name, net in nets.items():
        onnx.save(net.model, folder / f"{name}.onnx")
    host: Attributes = FrozenMap() if kind == "llvm" else HOST
    target = f"PackageTarget('here', {kind!r}, {attributes_of(kind)!r}, {host!r})"
    options = repr({name: net.options for name, net in nets.items()})
    code = _BUILD.replace("TARGET", target).replace("OPTIONS", options)
    command = [sys.executable, "-W", "ignore", "-c", code, str(folder)]
    subprocess.run(command, env=dict(os.environ, XDG_RUNTIME_DIR=str(folder)), check=True, timeout=1200)


@pytest.fixture
def runtime(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let C++ programs load the runtime of this kind of target that Python loads."""
    if kind == "vulkan":
        use_pythons_vulkan(monkeypatch)


@pytest.fixture
def packages(kind: str, runtime: None) -> Path:  # noqa: ARG001 - programs need it
    """The folder of the packages for this kind of target."""
    return make_once(("packages of frames", kind), lambda folder: build_packages(kind, folder))


@pytest.fixture
def cpu_packages() -> Path:
    return make_once(("packages of frames", "llvm"), lambda folder: build_packages("llvm", folder))


def draw_frames() -> Iterator[tuple[Frame, np.ndarray]]:
    """Yield each frame with bytes whose mean colours differ much from those of the others."""
    generator = np.random.default_rng(7)
    for frame in FRAMES:
        least = generator.integers(0, 100, frame.shape[2:] or (1,))
        yield frame, generator.integers(least, least + generator.integers(20, 150), frame.shape).astype(np.uint8)


def run_zeros(package: Path, size: int, folder: Path, *options: object) -> subprocess.CompletedProcess[str]:
    """Run run_model on a frame of ``size`` zeros."""
    path = folder / "zeros.raw"
    path.write_bytes(bytes(size))
    return run_program(install_programs() / "bin" / "run_model", package, "--frame", path, *options)


def ask(package: Path, frame: Frame, bytes_: np.ndarray, folder: Path, *options: object) -> list[str]:
    """Return the lines that run_model prints for the frame."""
    path = folder / "frame.raw"
    path.write_bytes(bytes_.tobytes())
    which = ["--encoding", frame.encoding, "--width", frame.width, *options]
    done = run_program(install_programs() / "bin" / "run_model", package, "--frame", path, *which)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def as_lines(result: Any) -> list[str]:
    """Return a result of Python as run_model prints it. The numbers are the same, not only rounded to the same."""

    def show(*numbers: float) -> str:
        return " ".join(f"{each:.9g}" for each in numbers)

    def begin(named: Box | Class | Point) -> str:
        return f"{show(named.score)} {named.index} {named.label or '-'}"

    if isinstance(result, Box):
        pixels = [] if result.mask is None else [str(int(result.mask.sum()))]
        line = " ".join([begin(result), show(result.x, result.y, result.width, result.height), *pixels])
        return [line, *(line for each in result.points for line in as_lines(each))]
    if isinstance(result, Point):
        return [f"{begin(result)} {show(result.x, result.y)}"]
    if isinstance(result, Map):
        found = result.as_dict()["classes"]
        return [f"{each['pixels']} {each['index']} {each['label'] or '-'}" for each in found]
    if isinstance(result, TextFound):
        return [f"{show(result.score)} {result.text}"]
    if isinstance(result, Output):
        return [f"output: {result.name} {result.values.dtype} {'x'.join(map(str, result.values.shape))}"]
    return [show(*result.values) if isinstance(result, VectorFound) else begin(result)]


def list_lines(found: Results | dict[str, np.ndarray]) -> list[str]:
    """Return the lines that run_model prints for results of Python."""
    assert isinstance(found, tuple)
    return [line for each in found for line in as_lines(each)]


def name_bytes(label: str | None) -> bytes:
    return (label or "").encode() + b"\0"


def point_bytes(points: tuple[Point, ...]) -> bytes:
    each = (struct.pack("<fffi", p.x, p.y, p.score, p.index) + name_bytes(p.label) for p in points)
    return b"".join(each)


def map_bytes(drawn: np.ndarray) -> bytes:
    return struct.pack("<ii", *drawn.shape) + drawn.astype(np.uint8).tobytes()


def array_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    return b"".join(struct.pack(f"<{each.ndim}q", *each.shape) + each.tobytes() for each in arrays.values())


def draw_masks(found: Results) -> bytes:
    """Return the map of all masks, which has the number of an object, or nothing if there are no masks."""
    masks = [each.mask for each in found.boxes if each.mask is not None]
    return map_bytes(np.sum([number * mask for number, mask in enumerate(masks, 1)], axis=0)) if masks else b""


def as_bytes(found: Results | dict[str, np.ndarray]) -> bytes:
    """Return results of Python as the program of this file writes them: each field of C++'s Results."""
    if isinstance(found, dict):
        return b"\0" + struct.pack("<f", 0) + array_bytes(found)
    data = b"".join(
        struct.pack("<fffffi", b.x, b.y, b.width, b.height, b.score, b.index)
        + name_bytes(b.label)
        + point_bytes(b.points)
        for b in found.boxes
    )
    data += draw_masks(found)
    data += b"".join(struct.pack("<fi", each.score, each.index) + name_bytes(each.label) for each in found.classes)
    data += b"".join(map_bytes(each.classes) for each in found.segmentations)
    text = found.text or TextFound("", 0)
    data += name_bytes(text.text) + struct.pack(f"<f{len(text.symbols)}i", text.score, *text.symbols)
    data += b"" if found.vector is None else found.vector.values.tobytes()
    return data + point_bytes(found.points) + array_bytes(found.outputs)


def list_files(net: Net, folder: Path) -> list[object]:
    """Write the inputs beside the picture, and return the options of run_model that name them."""
    for name, value in net.inputs.items():
        np.save(folder / f"{name}.npy", value)
    return [each for name in net.inputs for each in ("--input", f"{name}={folder / name}.npy")]


@pytest.mark.parametrize("kind", KINDS)
def test_printed_results_are_pythons(packages: Path, tmp_path: Path) -> None:
    different: dict[str, set[tuple[str, ...]]] = {}
    for name, net in NETS.items():
        if not net.results:
            continue
        frames, others = list(draw_frames()), list_files(net, tmp_path)
        with Session(packages / f"{name}.tar") as session:
            for frame, value in frames if name in ("boxes", "classes") else frames[:2]:
                want = list_lines(session.run_frame(value, frame.encoding, inputs=net.inputs))
                assert ask(packages / f"{name}.tar", frame, value, tmp_path, *others) == want, name
                different.setdefault(name, set()).add(tuple(want))
    assert {len(each) for each in different["classes"]} == {7}
    assert {len(each) for each in different["few"]} == {3}
    assert len({len(each) for each in different["boxes"]}) > 2, "the frames differ too little"
    assert [name for name, lines in different.items() if len(lines) < 2 or not all(lines)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_thresholds_can_be_replaced(packages: Path, tmp_path: Path) -> None:
    package = packages / "boxes.tar"
    frame, value = next(draw_frames())
    with Session(package) as session:
        for score, overlap in ((0.1, None), (-1.5, 1), (None, 0.05), (99, None)):
            options: list[object] = [] if score is None else ["--score", score]
            options += [] if overlap is None else ["--overlap", overlap]
            want = session.run_frame(value, frame.encoding, score=score, overlap=overlap)
            assert ask(package, frame, value, tmp_path, *options) == list_lines(want)
    assert not want


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_postprocess_the_outputs_are_the_networks(packages: Path, tmp_path: Path) -> None:
    frame, value = next(draw_frames())
    lines = ask(packages / "outputs.tar", frame, value, tmp_path)
    assert [each for each in lines if each.startswith("output")] == [
        "output: out0 float32 1x7",
        "output: out1 float32 1x3x4",
    ]
    with Session(packages / "outputs.tar") as session:
        scores = session.run_frame(value, frame.encoding)
    assert isinstance(scores, dict)
    assert int(lines[1].split()[0]) == int(scores["out0"].argmax())


@pytest.fixture(scope="module")
def cpp_program() -> Path:
    """The program of this file, which counts."""

    def build(folder: Path) -> None:
        (folder / "frames.cpp").write_text(_PROGRAM.replace("FACTOR", str(_FACTOR)))
        library = install_programs().parent / "build" / "libtvmbuild.a"
        libraries = [str(each) for each in find_runtime()]
        command = ["c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-static-libstdc++", f"-I{SOURCES}"]
        command += [f"-I{find_headers()}", str(folder / "frames.cpp"), str(library), "-Wl,--no-as-needed", *libraries]
        command += [f"-Wl,-rpath,{Path(each).parent}" for each in libraries]
        subprocess.run([*command, "-lpthread", "-ldl", "-o", str(folder / "frames")], check=True)

    return make_once("C++ frames", build) / "frames"


@pytest.fixture(scope="module", params=["c++", "c"])
def program(request: pytest.FixtureRequest, cpp_program: Path) -> Path:
    """The program of this file, or its twin in C."""
    return build_c_program("frames", f"-DFACTOR={_FACTOR}") if request.param == "c" else cpp_program


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_prepared_as_python_does(packages: Path, program: Path, tmp_path: Path) -> None:
    value = list(draw_frames())[1][1]
    path = tmp_path / "frame.raw"
    path.write_bytes(value.tobytes())
    with Session(packages / "classes.tar") as session:
        prepared = session.prepare_frame(value.reshape(90, 120, 3), "rgb8")
    assert run_program(program, packages / "classes.tar", path, 1, 120, 90).returncode == 0
    assert path.with_suffix(".raw.prepared").read_bytes() == prepared.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NETS)
def test_same_bits_at_any_address_without_allocations(packages: Path, program: Path, tmp_path: Path, name: str) -> None:
    value = list(draw_frames())[1][1]
    path = tmp_path / "frame.raw"
    path.write_bytes(value.tobytes())
    with Session(packages / f"{name}.tar") as session:
        bounds = {each.name: each.shape for each in session.outputs}
        found = [
            session.run_frame(value.reshape(shape), "rgb8", inputs=NETS[name].inputs)
            for shape in ((90, 120, 3), (120, 90, 3))
        ]
    done = run_program(program, packages / f"{name}.tar", path, 30, 120, 90)
    assert (done.returncode, done.stderr) == (0, "")
    more = 30 if any(hasattr(each, "overlap") for each in NETS[name].results) else 0
    assert done.stdout == f"different 0 more {more} allocated 0, 1 at first\n"
    assert path.with_suffix(".raw.results").read_bytes() == b"".join(map(as_bytes, found))
    if name.startswith("counted "):
        last = list(bounds)[-1]
        lengths = [each[last].shape for each in found if isinstance(each, dict)]
        assert len(lengths) == len(found)
        assert bounds[last] not in lengths, "no output is cut"
        assert name == "counted rows" or lengths[0] != lengths[1], "the frames' outputs have one length"
    if name == "in the input's pixels":
        assert isinstance(found[0], Results)
        assert found[0].segmentation is not None
        assert {each.mask.shape for each in found[0].boxes if each.mask is not None} == {SIZE}
        assert found[0].segmentation.classes.shape == SIZE
    if name in ("masks", "segmentation"):
        assert isinstance(found[0], Results)
        drawn = np.frombuffer(draw_masks(found[0]), np.uint8)[8:]
        if found[0].segmentation is not None:
            drawn = found[0].segmentation.classes
        assert len(np.unique(drawn)) > 2
        assert name == "masks" or (drawn == 255).any(), "the network sees all of the frame"


def test_every_kind_of_result_has_a_package() -> None:
    assert {kind_of(each) for net in NETS.values() for each in net.results} == set(RESULT_KINDS)
    assert {getattr(asked, "form", None) for _, asked in CASES.values()} >= {*BOX_FORMS, *GRID_FORMS}


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("runtime")
def test_every_form_has_the_same_bits(program: Path, tmp_path: Path, kind: str) -> None:
    """Compare all cases of tests/support/result_cases.py: every kind, every form of boxes."""
    nets = {f"case {number}": CaseNet(name) for number, name in enumerate(CASES)}
    build_packages(kind, tmp_path, nets)
    path = tmp_path / "frame.raw"
    value = list(draw_frames())[1][1]
    path.write_bytes(value.tobytes())
    for name, net in nets.items():
        with Session(tmp_path / f"{name}.tar") as session:
            found = [session.run_frame(value.reshape(shape), "rgb8") for shape in ((90, 120, 3), (120, 90, 3))]
        done = run_program(program, tmp_path / f"{name}.tar", path, 30, 120, 90)
        assert (done.returncode, done.stderr) == (0, ""), net.case
        assert re.fullmatch(r"different 0 more \d+ allocated 0, 1 at first\n", done.stdout), net.case
        assert path.with_suffix(".raw.results").read_bytes() == b"".join(map(as_bytes, found)), net.case
        assert all(found), net.case


def test_texts_have_symbols_without_labels(cpu_packages: Path) -> None:
    texts = {}
    for name in ("text", "last"):
        with Session(cpu_packages / f"{name}.tar") as session:
            frame, value = next(draw_frames())
            (text,) = session.run_frame(value, frame.encoding)
            assert isinstance(text, TextFound)
            texts[name] = text.text
    assert "<" in texts["text"]
    assert set(texts["text"]) & set("aäef文")
    assert re.fullmatch(r"(<\d>)+", texts["last"])


def test_thresholds_that_a_result_does_not_have(cpu_packages: Path, tmp_path: Path) -> None:
    frame, value = next(draw_frames())
    for name, net in NETS.items():
        for threshold in ("score", "overlap"):
            if any(hasattr(each, threshold) for each in net.results):
                continue
            given: dict[str, Any] = {threshold: 0.5}
            with Session(cpu_packages / f"{name}.tar") as session, pytest.raises(TvmbuildError) as caught:
                session.run_frame(value, frame.encoding, inputs=net.inputs, **given)
            which = ["--encoding", frame.encoding, "--width", frame.width, f"--{threshold}", 0.5]
            done = run_zeros(cpu_packages / f"{name}.tar", value.size, tmp_path, *which)
            assert (done.returncode, done.stderr) == (1, f"error: {caught.value.message}\n")


def test_frames_that_the_package_does_not_take(cpu_packages: Path, digits: Path, tmp_path: Path) -> None:
    known = ", ".join(f"{each.encoding} {list(each.shape)} of {math.prod(each.shape)} bytes" for each in FRAMES)
    cases: list[tuple[int, list[object], str]] = [
        (5, [], f"net takes no frame of 5 bytes; it takes {known}"),
        (0, [], f"net takes no frame of 0 bytes; it takes {known}"),
        (21600, ["--encoding", "bgr8"], f"net takes no frame of 21600 bytes in bgr8; it takes {known}"),
        (21600, ["--encoding", "jpeg"], f"net takes no frame of 21600 bytes in jpeg; it takes {known}"),
        (21600, ["--overlap", 1.5], "the threshold `overlap` is 1.5, and must be from 0 to 1"),
        (16200, ["--width", 90], f"net takes no frame of 16200 bytes, 90 pixels wide; it takes {known}"),
        (32400, [], f"several frames of net have 32400 bytes, so say the encoding or the width: {known}"),
        (
            32400,
            ["--encoding", "rgb8"],
            f"several frames of net have 32400 bytes in rgb8, so say the encoding or the width: {known}",
        ),
    ]
    boxes = cpu_packages / "boxes.tar"
    for size, options, reason in cases:
        done = run_zeros(boxes, size, tmp_path, *options)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {reason}\n")
    assert run_zeros(boxes, 21600, tmp_path).returncode == 0  # only one frame has as many bytes
    assert run_zeros(boxes, 32400, tmp_path, "--width", 90).returncode == 0
    package = build_package(digits, tmp_path)
    with Session(package) as session, pytest.raises(TvmbuildError) as caught:
        session.run_frame(np.zeros((4, 4), np.uint8))
    done = run_zeros(package, 16, tmp_path)
    assert (done.returncode, done.stderr) == (1, f"error: {caught.value.message}\n")


def test_arguments_that_make_no_sense(cpu_packages: Path, tmp_path: Path) -> None:
    run_model, package = install_programs() / "bin" / "run_model", cpu_packages / "boxes.tar"
    for arguments in (["p.ppm", "--frame", "f"], ["--encoding", "rgb8"], ["p.ppm", "--score", 1], ["--frame"]):
        done = run_program(run_model, package, *arguments)
        assert done.returncode == 2
        assert "usage: run_model PACKAGE.tar" in done.stderr
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "absent"):
        done = run_program(run_model, package, "--frame", path)
        assert (done.returncode, done.stderr) == (1, f"error: {path} cannot be read\n")
    done = run_program(run_model, package, "--frame", tmp_path / "absent", "--score", "high")
    assert (done.returncode, done.stderr) == (1, "error: --score: high is not a number\n")


def test_inputs_beside_the_picture_that_make_no_sense(cpu_packages: Path, tmp_path: Path) -> None:
    run_model, package = install_programs() / "bin" / "run_model", cpu_packages / "another input.tar"
    frame, value = next(draw_frames())
    (tmp_path / "frame.raw").write_bytes(value.tobytes())
    np.save(tmp_path / "right.npy", np.ones(1, np.float32))
    np.save(tmp_path / "long.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "wide.npy", np.ones(1, np.float64))
    np.save(tmp_path / "text.npy", np.array(["a"]))
    np.save(tmp_path / "turned.npy", np.asfortranarray(np.ones((2, 3), np.float32)))
    whole = (tmp_path / "right.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-1])
    (tmp_path / "begun.npy").write_bytes(whole[:40])
    (tmp_path / "bare.npy").write_bytes(b"1.0")
    unreadable = "cannot be read as .npy: "
    files = {
        "long": "the input factor of net is float32 1, got float32 2x3",
        "wide": "the input factor of net is float32 1, got float64 1",
        "text": f"{unreadable}its type is none of a package: '<U1'",
        "turned": f"{unreadable}its columns lie together: save numpy.ascontiguousarray of it",
        "cut": f"{unreadable}it has fewer elements than its header says",
        "begun": f"{unreadable}it ends in its header",
        "bare": f"{unreadable}numpy.save writes such a file",
        "absent": "cannot be read",
    }
    cases = [([f"factor={tmp_path}/{name}.npy"], told) for name, told in files.items()]
    cases += [
        ([], "net needs --input for factor beside the picture"),
        ([f"factor={tmp_path}/right.npy"] * 2, "--input factor is given twice"),
        ([f"scale={tmp_path}/right.npy"], "net has no input scale beside the picture; its inputs are factor"),
    ]
    for given, told in cases:
        named = [each for word in given for each in ("--input", word)]
        done = run_program(run_model, package, "--frame", tmp_path / "frame.raw", "--encoding", frame.encoding, *named)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("error: ")
        assert done.stderr.endswith(f"{told}\n")
    done = run_program(run_model, package, "--frame", tmp_path / "frame.raw", "--input", "factor")
    assert done.returncode == 2
    (tmp_path / "p.ppm").write_bytes(b"P6 1 1 255 abc")
    done = run_program(run_model, package, tmp_path / "p.ppm")
    assert done.stderr == "error: net needs --input for factor beside the picture\n"


def damage(package: Path, path: Path, alter: Callable[[dict[str, Any]], object]) -> Path:
    """Write the package with an altered mod.json."""
    with tarfile.open(package) as old, tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as new:
        for member in old:
            stream = old.extractfile(member)
            assert stream is not None
            data = stream.read()
            if member.name == "mod.json":
                value = json.loads(data)
                alter(value)
                data = json.dumps(value).encode()
            written = tarfile.TarInfo(member.name)
            written.size = len(data)
            new.addfile(written, io.BytesIO(data))
    return path


def replace_value(path: list[str | int], new: object, value: Any) -> None:
    """Replace the part of mod.json at the path of keys."""
    *above, last = path
    for key in above:
        value = value[key]
    value[last] = new


def test_damaged_metadata_are_refused(cpu_packages: Path, tmp_path: Path) -> None:
    frames: dict[str, tuple[str, Any]] = {
        "[0].height is not a side of a frame": ("height", 0),
        "[0].width is not a side of a frame": ("width", 1 << 14 | 1),
        "[0].height is not a natural number": ("height", -4),
        "[0].width is not a natural number": ("width", 4.5),
        "[0].encoding is not a choice that is known": ("encoding", "h264"),
        "[0].encoding is not a text": ("encoding", 7),
        "[0].interpolation is not a choice that is known": ("interpolation", "cubic"),
        "[0].stride is not a distance of two rows": ("stride", 4),
        "[0].crop is not a part of the frame": ("crop", {"top": 1, "left": 0, "height": 90, "width": 120}),
        "[0].crop.top is missing": ("crop", {"left": 0, "height": 90, "width": 120}),
        "[0].padding is not a key that is known": ("padding", 4),
    }
    results: dict[str, tuple[str, Any]] = {
        "score is not a number": ("score", "high"),
        "overlap is not a number": ("overlap", None),
        "most is not a number of results": ("most", 0),
        "most is not a sensible number": ("most", 1 << 60),
        "most is not a natural number": ("most", True),
        "outputs[0] is not a text": ("outputs", [1]),
        "agnostic is not a truth value": ("agnostic", 1),
        "form is not a text": ("form", {}),
        "colour is not a key that is known": ("colour", "red"),
    }
    alterations: dict[str, Callable[[dict[str, Any]], object]] = {
        "frames is not a list": lambda value: value.update(frames={}),
        "frames[0] is not a map": lambda value: value.update(frames=["rgb8"]),
        "frames[0].encoding is missing": lambda value: value["frames"][0].pop("encoding"),
        "frames[3].width is not an even number, although pixels share their colours": partial(
            replace_value, ["frames", 3, "width"], 121
        ),
        "frames[4].height is not an even number, although rows share their colours": partial(
            replace_value, ["frames", 4, "height"], 91
        ),
        "postprocess is not a map": lambda value: value.update(postprocess=["boxes"]),
        "postprocess is not a map of kinds of results that are known": lambda value: value.update(
            postprocess={"depth": {}}
        ),
        "postprocess.boxes is not a map": lambda value: value.update(postprocess={"boxes": 4}),
        "postprocess.boxes.most is missing": lambda value: value["postprocess"]["boxes"].pop("most"),
    }
    for told, (key, wrong) in frames.items():
        alterations[f"frames{told}"] = partial(replace_value, ["frames", 0, key], wrong)
    for told, (key, wrong) in results.items():
        alterations[f"postprocess.boxes.{told}"] = partial(replace_value, ["postprocess", "boxes", key], wrong)
    expect_refused(cpu_packages, tmp_path, alterations.items())


def expect_refused(
    cpu_packages: Path, tmp_path: Path, alterations: Iterable[tuple[str, Callable[[dict[str, Any]], object]]]
) -> None:
    """Alter the mod.json of a package, and expect both languages to refuse it with these messages of C++."""
    for told, alter in alterations:
        path = damage(cpu_packages / "boxes.tar", tmp_path / "m.tar", alter)
        done = run_zeros(path, 21600, tmp_path)
        assert (done.returncode, done.stderr) == (1, f"error: {path} is damaged: mod.json is damaged: {told}\n")
        with pytest.raises(TvmbuildError, match=re.split(r"\W", told)[0]):
            Session(path)


def test_damaged_lists_of_results_are_refused(cpu_packages: Path, tmp_path: Path) -> None:
    boxes, segmentation = (
        json.loads(json.dumps(postprocess_to_json((each,)))) for each in (Boxes("yolov8"), Segmentation())
    )
    cases: list[tuple[dict[str, Any], str]] = [
        ({"boxes": [boxes["boxes"]]}, ".boxes is not a result"),
        ({"segmentation": []}, ".segmentation is not a result"),
        ({"raw": {"outputs": []}}, ".raw.outputs is not a list of outputs"),
        ({"segmentation": [segmentation["segmentation"], 4]}, ".segmentation[1] is not a map"),
    ]
    alterations = [(f"postprocess{told}", partial(replace_value, ["postprocess"], value)) for value, told in cases]
    expect_refused(cpu_packages, tmp_path, alterations)


_BOXES = postprocess_to_json((Boxes("yolov8"),)) | postprocess_to_json((Masks("yolov8"),))


@pytest.mark.parametrize(
    "asked", [Raw(("out0",)), *(net.results[0] for net in NETS.values() if net.results)], ids=kind_of
)
def test_damaged_kinds_of_results_are_refused(cpu_packages: Path, tmp_path: Path, asked: Postprocess) -> None:
    ((kind, fields),) = json.loads(json.dumps(postprocess_to_json((asked,)))).items()
    wrong: dict[str, list[tuple[Any, str]]] = {
        "outputs": [("out0", "list")],
        "labels": [("cat", "list")],
        "strides": [(8, "list")],
        "form": [(8, "text")],
        "anchors": [(8, "list")],
        "score": [(True, "number")],
        "overlap": [("0.5", "number")],
        "agnostic": [(0, "truth value")],
        "normalise": [("yes", "truth value")],
        "most": [(0, "number of results"), (256 if kind == "masks" else 1001, "number of results")],
        "points": [(0, "number of points"), (1001, "number of points")],
        "values": [(1, "number of values of a point"), (4, "number of values of a point")],
        "activation": [("tanh", "choice that is known")],
        "interpolation": [("cubic", "choice that is known")],
        "blank": [("none", "choice that is known"), (0, "text")],
        "resolution": [("grid", "choice that is known")],
    }
    cases: list[tuple[str, dict[str, Any]]] = [
        (f".{kind}.colour is not a key that is known", {kind: {**fields, "colour": "red"}}),
        (" is not a map of kinds of results that are known", {kind: fields, "depth": {}}),
        (" is not a map of kinds of results that are known", {}),
        (" is not a map with one kind of boxes", {each: _BOXES[each] for each in ("boxes", "masks")}),
    ]
    for key in (
        *(["labels"] if kind not in ("text", "vector", "raw") else []),
        *(["strides"] if "form" in fields else []),
    ):
        cases += [(f".{kind}.{key} is not a {told}", {kind: {**fields, key: value}}) for value, told in wrong[key]]
    for key in fields:
        others = {each: fields[each] for each in fields if each != key}
        cases += [] if key == "resolution" else [(f".{kind}.{key} is missing", {kind: others})]
        cases += [(f".{kind}.{key} is not a {told}", {kind: {**others, key: value}}) for value, told in wrong[key]]
    expect_refused(
        cpu_packages,
        tmp_path,
        [(f"postprocess{told}", partial(replace_value, ["postprocess"], value)) for told, value in cases],
    )


def test_metadata_that_do_not_fit_the_code(cpu_packages: Path, tmp_path: Path) -> None:
    more = {"height": 10, "width": 10, "encoding": "mono8", "interpolation": "nearest"}
    cases: list[tuple[str, int, str, Callable[[dict[str, Any]], object]]] = [
        ("boxes", 100, f"mod.so has no function frame{len(FRAMES)}", lambda value: value["frames"].append(more)),
        ("boxes", 100, "frame0 of net: ", lambda value: value["frames"].insert(0, more)),
        ("boxes", 21600, "its frame3 takes another number of arrays", lambda value: value.pop("postprocess")),
    ]
    returns: list[tuple[str, str, Postprocess]] = [
        ("boxes", "another number of results", Boxes("yolov8", most=299)),
        ("boxes", "another number of results", Boxes("yolov8", most=301)),
        ("keypoints", "another number of arrays", Masks("yolov8", most=70)),
        ("keypoints", "another array boxes", Keypoints("yolov8", most=70, points=3)),
        ("keypoints", "another array boxes", Keypoints("yolov8", most=70, points=4, values=2)),
        ("keypoints", "another array boxes", Boxes("yolov8", most=70)),
        ("masks", "another number of arrays", Boxes("yolov8", most=70)),
        ("classes", "another number of results", Classes(most=6)),
        ("boxes", "another array text", Text()),
        ("boxes", "another array heatmaps", Heatmaps()),
        ("boxes", "another array vector", Vector()),
        ("boxes", "another array segmentation", Segmentation()),
        ("text", "another array heatmaps", Heatmaps()),
        ("heatmaps", "another array text", Text()),
        ("vector", "another array text", Text()),
        ("segmentation", "another array vector", Vector()),
        ("segmentation", "another number of results", Boxes("yolov8")),
        ("boxes", "another array out0", Raw(("out0",))),
    ]
    none = postprocess_to_json((Raw(("out7",)),))
    told = "mod.json has a result `raw` of out7, which is no output"
    cases.append(("boxes", 21600, told, partial(replace_value, ["postprocess"], json.loads(json.dumps(none)))))
    for name, told, asked in returns:
        new = json.loads(json.dumps(postprocess_to_json((asked,))))
        cases.append((name, 21600, f"frame3 of net returns {told}", partial(replace_value, ["postprocess"], new)))
    for name, size, told, alter in cases:
        path = damage(cpu_packages / f"{name}.tar", tmp_path / "m.tar", alter)
        done = run_zeros(path, size, tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch(f"error: .*{re.escape(told)}.*\n", done.stderr), done.stderr
