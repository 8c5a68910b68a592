"""C++ programs make the same boxes and classes of a frame as Python, and refuse the same frames and packages."""

from __future__ import annotations

import io
import json
import math
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cpp_programs import SOURCES, install_programs, run_program
from detector_nets import make_detector
from device_kinds import KINDS, attributes_of
from made_once import make_once
from small_package import build_package
from vulkan_devices import HOST

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Attributes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.results import Box
from tvmbuild.package.runtime.host import find_device
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
)
LABELS = ("one", "a long name with spaces, ä", "three", "four")  # of five classes
NETS: dict[str, list[tuple[int, ...]]] = {"boxes": [(1, 9, 60)], "classes": [(1, 20)], "outputs": [(1, 7), (1, 3, 4)]}
"""Kind of package → the shapes of its network's outputs."""
_BUILD = """
import sys
from pathlib import Path
from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Boxes, Classes
from tvmbuild.base.specs import Preprocess
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
folder = Path(sys.argv[1])
results = {"boxes": Boxes("yolov8", score=0.6, most=300), "classes": Classes(most=7), "outputs": None}
for name, postprocess in results.items():
    rules = Preprocess(resize="stretch" if name == "classes" else "letterbox")
    labels = LABELS if name == "boxes" else None
    options = BuildOptions("net", preprocess=rules, frames=FRAMES, postprocess=postprocess, labels=labels)
    package = build_package(folder / f"{name}.onnx", TARGET, options=options)
    write_package(folder / f"{name}.tar", package)
"""
_PROGRAM = r"""
// frames PACKAGE FILE ENCODING CALLS: prints how many results differ between aligned and other addresses of the same
// bytes, and how often this program, not TVM, allocated after the first frames.
#include <tvmbuild.h>

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
  for (const tvmbuild::Box &each : results.boxes) add(&each, sizeof(each));
  for (const tvmbuild::Class &each : results.classes) add(&each, sizeof(each));
  for (const tvmbuild::Tensor &each : results.outputs) add(each.data(), each.info().bytes());
  return all;
}

int main(int, char **words) {
  tvmbuild::Session session(words[1]);
  std::ifstream file(words[2], std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(64, (bytes.size() + 127) / 64 * 64));
  std::vector<tvmbuild::Tensor> inputs = {tvmbuild::Tensor(session.info().inputs[0])}, want = session.run(inputs);
  tvmbuild::FrameOptions options, all;
  options.encoding = all.encoding = words[3];
  options.width = all.width = 120;
  all.score = -9;
  all.overlap = 1;
  std::string first;
  long begun = 0, counted = 0;
  int different = 0, more = 0;
  for (int i = 0; i < std::atoi(words[4]); i++) {
    uint8_t *at = memory + i % 3;
    std::memcpy(at, bytes.data(), bytes.size());
    allocated = 0;
    const tvmbuild::Results &results = session.run_frame(at, bytes.size(), options);
    size_t found = results.boxes.size();
    (i < 6 ? begun : counted) += allocated;
    std::string described = describe(results);
    if (i == 0) first = described;
    different += described != first;
    allocated = 0;
    more += session.run_frame(at, bytes.size(), all).boxes.size() > found;
    (i < 6 ? begun : counted) += allocated;
  }
  session.call();  // the inputs that were bound before the frames
  different += std::memcmp(session.outputs()[0].data(), want[0].data(), want[0].info().bytes()) != 0;
  std::printf("different %d more %d allocated %ld, %d at first\n", different, more, counted, begun > 0);
  std::free(memory);
}
"""


def build_packages(kind: str, folder: Path) -> None:
    """Build a package for each of NETS in a separate process."""
    for name, shapes in NETS.items():
        onnx.save(make_detector(shapes, SIZE), folder / f"{name}.onnx")
    host: Attributes = FrozenMap() if kind == "llvm" else HOST
    target = f"PackageTarget('here', {kind!r}, {attributes_of(kind)!r}, {host!r})"
    code = _BUILD.replace("FRAMES", repr(FRAMES)).replace("TARGET", target).replace("LABELS", repr(LABELS))
    command = [sys.executable, "-W", "ignore", "-c", code, str(folder)]
    subprocess.run(command, env=dict(os.environ, XDG_RUNTIME_DIR=str(folder)), check=True, timeout=300)


@pytest.fixture
def packages(kind: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the packages for this kind of target."""
    if kind == "vulkan":
        find_device("vulkan")
        found = re.search(r"/\S*libtvmbuild_vulkan\.so", Path("/proc/self/maps").read_text())
        if found is None:
            pytest.skip("the Vulkan runtime is another than libtvmbuild_vulkan.so")
        monkeypatch.setenv("TVMBUILD_VULKAN_LIBRARY", found[0])
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


def as_line(result: Any) -> str:
    """Return a result of Python as run_model prints it. Sides are rounded to float32, as in C++."""
    numbers = [result.x, result.y, result.width, result.height] if isinstance(result, Box) else []
    return " ".join(
        [f"{result.score:.9g} {result.index} {result.label or '-'}", *(f"{np.float32(n):.9g}" for n in numbers)]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_and_classes_are_pythons(packages: Path, tmp_path: Path) -> None:
    counts = set()
    for name in ("boxes", "classes"):
        with Session(packages / f"{name}.tar") as session:
            for frame, value in draw_frames():
                want = session.run_frame(value, frame.encoding)
                assert ask(packages / f"{name}.tar", frame, value, tmp_path) == [as_line(each) for each in want]
                counts.add((name, len(want)))
    assert ("classes", 7) in counts
    assert len(counts) > 4, "the frames differ too little"


@pytest.mark.parametrize("kind", KINDS)
def test_thresholds_can_be_replaced(packages: Path, tmp_path: Path) -> None:
    package = packages / "boxes.tar"
    frame, value = next(draw_frames())
    with Session(package) as session:
        for score, overlap in ((0.1, None), (-1.5, 1), (None, 0.05), (99, None)):
            options: list[object] = [] if score is None else ["--score", score]
            options += [] if overlap is None else ["--overlap", overlap]
            want = session.run_frame(value, frame.encoding, score=score, overlap=overlap)
            assert ask(package, frame, value, tmp_path, *options) == [as_line(each) for each in want]
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
def program() -> Path:
    """The program of this file, which counts."""

    def build(folder: Path) -> None:
        (folder / "frames.cpp").write_text(_PROGRAM)
        library = install_programs().parent / "build" / "libtvmbuild.a"
        libraries = [str(each) for each in find_runtime()]
        command = ["c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-static-libstdc++", f"-I{SOURCES}"]
        command += [f"-I{find_headers()}", str(folder / "frames.cpp"), str(library), "-Wl,--no-as-needed", *libraries]
        command += [f"-Wl,-rpath,{Path(each).parent}" for each in libraries]
        subprocess.run([*command, "-lpthread", "-ldl", "-o", str(folder / "frames")], check=True)

    return make_once("C++ frames", build) / "frames"


@pytest.mark.parametrize("kind", KINDS)
def test_frames_at_any_address_without_allocations(packages: Path, program: Path, tmp_path: Path) -> None:
    frame, value = list(draw_frames())[1]
    (tmp_path / "frame.raw").write_bytes(value.tobytes())
    for name in NETS:
        done = run_program(program, packages / f"{name}.tar", tmp_path / "frame.raw", frame.encoding, 30)
        assert (done.returncode, done.stderr) == (0, "")
        more = 30 if name == "boxes" else 0
        assert done.stdout == f"different 0 more {more} allocated 0, 1 at first\n", name


def test_frames_that_the_package_does_not_take(cpu_packages: Path, digits: Path, tmp_path: Path) -> None:
    known = ", ".join(f"{each.encoding} {list(each.shape)} of {math.prod(each.shape)} bytes" for each in FRAMES)
    cases: list[tuple[int, list[object], str]] = [
        (5, [], f"net takes no frame of 5 bytes; it takes {known}"),
        (0, [], f"net takes no frame of 0 bytes; it takes {known}"),
        (21600, ["--encoding", "bgr8"], f"net takes no frame of 21600 bytes in bgr8; it takes {known}"),
        (21600, ["--encoding", "jpeg"], f"net takes no frame of 21600 bytes in jpeg; it takes {known}"),
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
    assert (done.returncode, done.stderr) == (1, "error: --score: high is no number\n")


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
        "[0].height is no side of a frame": ("height", 0),
        "[0].width is no side of a frame": ("width", 1 << 14 | 1),
        "[0].height is no natural number": ("height", -4),
        "[0].width is no natural number": ("width", 4.5),
        "[0].encoding is no choice that is known": ("encoding", "h264"),
        "[0].encoding is no text": ("encoding", 7),
        "[0].interpolation is no choice that is known": ("interpolation", "cubic"),
        "[0].stride is no key that is known": ("stride", 4),
    }
    results: dict[str, tuple[str, Any]] = {
        "score is no number": ("score", "high"),
        "overlap is no number": ("overlap", None),
        "most is no number of results": ("most", 0),
        "most is no sensible number": ("most", 1 << 60),
        "most is no natural number": ("most", True),
        "outputs[0] is no text": ("outputs", [1]),
        "agnostic is no truth value": ("agnostic", 1),
        "form is no text": ("form", {}),
        "colour is no key that is known": ("colour", "red"),
    }
    alterations: dict[str, Callable[[dict[str, Any]], object]] = {
        "frames is no list": lambda value: value.update(frames={}),
        "frames[0] is no map": lambda value: value.update(frames=["rgb8"]),
        "frames[0].encoding is missing": lambda value: value["frames"][0].pop("encoding"),
        "frames[3].width is no even number, although pixels share their colours": partial(
            replace_value, ["frames", 3, "width"], 121
        ),
        "frames[4].height is no even number, although rows share their colours": partial(
            replace_value, ["frames", 4, "height"], 91
        ),
        "postprocess is no map": lambda value: value.update(postprocess=["boxes"]),
        "postprocess is no boxes or classes": lambda value: value.update(postprocess={"masks": {}}),
        "postprocess.boxes is no map": lambda value: value.update(postprocess={"boxes": 4}),
        "postprocess.boxes.most is missing": lambda value: value["postprocess"]["boxes"].pop("most"),
        "postprocess.classes.activation is no choice that is known": lambda value: value.update(
            postprocess={"classes": {"outputs": [], "activation": "tanh", "score": 0, "most": 5}}
        ),
    }
    for told, (key, wrong) in frames.items():
        alterations[f"frames{told}"] = partial(replace_value, ["frames", 0, key], wrong)
    for told, (key, wrong) in results.items():
        alterations[f"postprocess.boxes.{told}"] = partial(replace_value, ["postprocess", "boxes", key], wrong)
    for told, alter in alterations.items():
        path = damage(cpu_packages / "boxes.tar", tmp_path / "m.tar", alter)
        done = run_zeros(path, 21600, tmp_path)
        assert (done.returncode, done.stderr) == (1, f"error: {path} is damaged: mod.json is damaged: {told}\n")
        with pytest.raises(TvmbuildError, match=re.split(r"\W", told)[0]):
            Session(path)


def test_metadata_that_do_not_fit_the_code(cpu_packages: Path, tmp_path: Path) -> None:
    more = {"height": 10, "width": 10, "encoding": "mono8", "interpolation": "nearest"}
    cases: list[tuple[int, str, Callable[[dict[str, Any]], object]]] = [
        (100, "mod.so has no function frame6", lambda value: value["frames"].append(more)),
        (100, "frame0 of net: ", lambda value: value["frames"].insert(0, more)),
        (21600, "its frame3 takes another number of arrays", lambda value: value.pop("postprocess")),
        (21600, "frame3 of net returns another number", lambda value: value["postprocess"]["boxes"].update(most=59)),
    ]
    for size, told, alter in cases:
        path = damage(cpu_packages / "boxes.tar", tmp_path / "m.tar", alter)
        done = run_zeros(path, size, tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch(f"error: .*{re.escape(told)}.*\n", done.stderr), done.stderr
