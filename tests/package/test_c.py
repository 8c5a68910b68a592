"""The C interface: its symbols and layouts, programs of C, Python and Rust, and every way to misuse it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from c_programs import (
    C_SOURCES,
    HEADER,
    STRICT,
    build_c_program,
    call_by_ctypes,
    list_layouts,
    write_c_project,
    write_inputs,
)
from counted_chains import chain, feeds
from cpp_programs import build_by_cmake, install_programs, run_program
from damaged_packages import write_damaged
from detector_nets import make_detector
from preloaded import preload
from sized_nets import MODEL, build_project, draw_inputs, make_project
from small_package import build_package, change_package

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Boxes
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.package.archive import read_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.pack import write_pack
from tvmbuild.package.ranking import rank_classes
from tvmbuild.package.results import Results
from tvmbuild.package.runtime.session import Session

pytestmark = [pytest.mark.compiler, pytest.mark.toolchain]


@pytest.fixture
def package(digits: Path, tmp_path: Path) -> Path:
    return build_package(digits, tmp_path)


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    """A package of frames."""
    (tmp_path / "boxes").mkdir()
    onnx.save(make_detector([(1, 9, 60)], (64, 80)), tmp_path / "boxes.onnx")
    return build_package(
        tmp_path / "boxes.onnx",
        tmp_path / "boxes",
        preprocess=Preprocess(resize="letterbox"),
        frames=(Frame(90, 120, "bgr8"), Frame(90, 120, "rgb8")),
        postprocess=(Boxes("yolov8", score=0.6),),
    )


def name_absent(folder: Path) -> str:
    """Return the message about a package that is not there."""
    return f"{folder}/absent.tar cannot be read: No such file or directory"


def test_the_library_exports_the_functions_of_its_header_alone() -> None:
    command = ["nm", "-D", "--defined-only", str(install_programs() / "lib" / "libtvmbuild.so.1")]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    declared = re.findall(r"^TVMBUILD_API .*?\b(tvmbuild_\w+)\(", HEADER.read_text(), re.MULTILINE)
    assert len(declared) == len(set(declared)) > 30
    assert {line.split()[1:][0] for line in listed} == {"T"}
    assert sorted(line.split()[-1] for line in listed) == sorted(declared)


def test_the_layout_of_the_abi_stays() -> None:
    """A change here needs another TVMBUILD_ABI, unless it appends to a struct with a `size`."""
    frozen = json.loads((C_SOURCES / "abi1.json").read_text())
    assert list_layouts() == frozen
    program = [sys.executable, str(C_SOURCES / "call_by_ctypes.py"), "", "layouts"]
    listed = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()
    for name, size, fields in map(json.loads, listed):
        assert {"size": size, "fields": fields} == frozen[name]


@pytest.mark.parametrize("how", ["cmake", "pkg-config"])
def test_a_program_of_somebody_else_finds_the_library(package: Path, tmp_path: Path, how: str) -> None:
    installed = Path(shutil.copytree(install_programs(), tmp_path / "moved", symlinks=True))
    if how == "cmake":
        program = write_c_project(tmp_path / "theirs", installed)
    else:
        if shutil.which("pkg-config") is None:
            pytest.skip("pkg-config is not installed")
        environment = {"PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig"), "PATH": "/usr/bin:/bin"}
        command = ["pkg-config", "--cflags", "--libs", "tvmbuild"]
        flags = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
        program = tmp_path / "misuse"
        command = ["gcc", "-std=c11", str(C_SOURCES / "misuse.c"), *flags, "-o", str(program)]
        subprocess.run([*command, f"-Wl,-rpath,{installed / 'lib'}"], check=True)
    done = run_program(program, tmp_path / "absent.tar")
    assert done.stdout == f"2 tvmbuild_load(): {name_absent(tmp_path)}\n"
    assert run_program(program, package).stdout == "0 tvmbuild_load(): \n"


def test_the_program_of_the_manual_prints_the_boxes(boxes: Path, tmp_path: Path, project_root: Path) -> None:
    (program,) = re.findall(
        r"^```c\n(#include.*?)^```", (project_root / "docs/how-to/c.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "detect.c").write_text(program)
    library = install_programs() / "lib"
    command = [*STRICT, str(tmp_path / "detect.c"), f"-I{library.parent / 'include'}", "-o", str(tmp_path / "detect")]
    subprocess.run([*command, f"-L{library}", "-ltvmbuild", f"-Wl,-rpath,{library}"], check=True)
    frame = np.random.default_rng(3).integers(0, 200, (90, 120, 3), np.uint8)
    frame.tofile(tmp_path / "frame.raw")
    done = run_program(tmp_path / "detect", boxes, tmp_path / "frame.raw")
    with Session(boxes) as session:
        found = session.run_frame(frame, "bgr8", score=0.5)
    assert isinstance(found, Results)
    lines = []
    for box in found.boxes:
        score, *sides = (f"{each:.9g}" for each in (box.score, box.x, box.y, box.width, box.height))
        lines.append(" ".join([score, str(box.index), box.label or "", *sides]))
    assert done.stdout.splitlines() == lines
    assert lines


def test_the_reference_names_every_function(project_root: Path) -> None:
    page = (project_root / "docs/reference/c-interface.md").read_text()
    declared = set(re.findall(r"\b(tvmbuild_\w+)\(", HEADER.read_text()))
    assert {name for name in declared if f"`{name}`" not in page} == set()


def expect_refusals(program: Path, package: Path, boxes: Path) -> None:
    """Run misuse.c, and check that each call is refused with one sentence."""
    done = run_program(program, package, boxes)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    *lines, last = done.stdout.splitlines()
    assert last == "done"
    assert len(lines) > 60
    for line in lines:
        status, name, message = re.fullmatch(r"(\d) (\w+)\(.*?\): (.*)", line).groups()  # type: ignore[union-attr]
        assert status in "123", line
        assert len(message) > 12, line
        if "NULL" in line and "is null" in message:
            assert status == "1", line
        assert name.startswith("tvmbuild_")


def test_every_misuse_is_one_clear_error(package: Path, boxes: Path) -> None:
    expect_refusals(build_c_program("misuse"), package, boxes)


@pytest.mark.nightly
def test_the_sanitizers_find_nothing_in_misuse_and_damaged_packages(package: Path, boxes: Path, tmp_path: Path) -> None:
    checked = build_by_cmake(tmp_path, "-DTVMBUILD_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug")
    program = build_c_program("misuse", "-fsanitize=address,undefined", installed=checked)
    expect_refusals(program, package, boxes)
    messages = set()
    for name, path in write_damaged(package, tmp_path):
        done = run_program(program, path)
        assert (done.returncode, done.stdout.startswith("2 tvmbuild_load"), done.stdout.count("\n")) == (0, True, 1), (
            name
        )
        messages.add(done.stdout)
    assert len(messages) >= 15


def expect_background_calls(program: Path, package: Path, env: dict[str, str] | None = None) -> None:
    """Run async.c, and check each of its facts."""
    done = run_program(program, package, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    assert done.stdout.splitlines() == [
        "in order: 200 done, 0 different",
        "kept: 1",
        "newest: 49 cancelled at once, 1 done, 0 different",
        "wrong inputs: 1 failed",
        "in a callback: 1 refused, 4 calls, 0 different",
        "closed in a callback: 1 refused, 0 missing, 0 different",
    ]


def test_calls_in_the_background(package: Path) -> None:
    expect_background_calls(build_c_program("async"), package)
    expect_background_calls(build_c_program("async"), package, preload("jumping_clock"))


def expect_frames_in_the_background(program: Path, boxes: Path) -> None:
    """Run frames_async.c, and check each of its facts."""
    done = run_program(program, boxes, str(90 * 120 * 3))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    assert done.stdout.splitlines() == [
        "boxes: 1, the same: 40",
        "a wrong frame: 1 failed",
        "the newest: 40, at least one the same: 1",
        "options of an older program: 1",
        "misuse: 3 refused",
    ]


def test_frames_in_the_background(boxes: Path) -> None:
    expect_frames_in_the_background(build_c_program("frames_async"), boxes)


def expect_ended_parts(program: Path, folder: Path) -> None:
    """Run parts.c, and check each of its facts."""
    folder.mkdir()
    done = run_program(program, build_project(folder).package)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    assert done.stdout.splitlines() == [
        "after the end: 1 done, 1 cancelled",
        "opened again: 3 done, 0 cancelled",
        "closed in a callback: 1 done, then 4",
    ]


def test_the_calls_of_one_size_end_with_its_last_handle(tmp_path: Path) -> None:
    expect_ended_parts(build_c_program("parts"), tmp_path / "project")


@pytest.mark.nightly
def test_the_sanitizers_find_nothing_in_calls_in_the_background(package: Path, boxes: Path, tmp_path: Path) -> None:
    checked = build_by_cmake(tmp_path, "-DTVMBUILD_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug")
    expect_background_calls(build_c_program("async", "-fsanitize=address,undefined", installed=checked), package)
    frames = build_c_program("frames_async", "-fsanitize=address,undefined", installed=checked)
    expect_frames_in_the_background(frames, boxes)
    expect_ended_parts(build_c_program("parts", "-fsanitize=address,undefined", installed=checked), tmp_path / "sized")


def test_python_by_ctypes_runs_a_package(package: Path, tmp_path: Path) -> None:
    package = change_package(
        package, tmp_path / "m.tar", preprocess=Preprocess(color="gray"), labels=tuple("abcdefghij")
    )
    generator = np.random.default_rng(4)
    value = generator.uniform(0, 1, (1, 1, 28, 28)).astype(np.float32)
    picture = generator.integers(0, 256, (40, 30, 3), np.uint8)
    write_inputs(tmp_path, {"Input3": value})
    picture.tofile(tmp_path / "picture.raw")
    with Session(package, threads=1) as session:
        (want,) = session.run({"Input3": value}).values()
        (scores,) = session.run({"Input3": session.preprocess(picture)}).values()
        best = rank_classes(scores, session.metadata.labels, 3)
    told = call_by_ctypes("arrays", package, tmp_path)
    assert told == {"threads": 1, "wrong": [], "sizes": [], "counted": [[]]}
    with np.load(tmp_path / "outputs.npz") as stored:
        np.testing.assert_array_equal(stored["arr_0"], want)
    target = PackageTarget("board", "llvm", FrozenMap({"mtriple": "aarch64-linux-gnu"}))
    other = change_package(package, tmp_path / "other.tar", target=target)
    write_pack(tmp_path / "pack.tar", {"board": read_package(other), "here": read_package(package)})
    told = call_by_ctypes("tensors", tmp_path / "pack.tar", tmp_path)
    with np.load(tmp_path / "outputs.npz") as stored:
        np.testing.assert_array_equal(stored["arr_0"], want)
    assert (set(told["same"]), told["on host"]) == ({True}, 1)
    absent, foreign = told["passed over"].splitlines()
    assert absent == f"{tmp_path}/absent.tar: {name_absent(tmp_path)}"
    assert foreign.startswith(f"{tmp_path}/pack.tar: board: ")
    assert "aarch64" in foreign
    assert [(index, label) for index, _, label in told["best"]] == [(each.index, each.label) for each in best]
    np.testing.assert_allclose([each[1] for each in told["best"]], [each.probability for each in best], rtol=1e-5)


def test_lengths_that_depend_on_data_are_the_real_ones(tmp_path: Path) -> None:
    onnx.save(chain("boxes", ["sorted", "elementwise"]), tmp_path / "net.onnx")
    package = build_package(tmp_path / "net.onnx", tmp_path)
    shapes = set()
    for feed in feeds(3):
        write_inputs(tmp_path, feed)
        told = call_by_ctypes("arrays", package, tmp_path)
        assert any(told["counted"])
        with Session(package) as session, np.load(tmp_path / "outputs.npz") as stored:
            for got, want in zip(stored.values(), session.run(feed).values(), strict=True):
                np.testing.assert_array_equal(got, want)
                shapes.add(want.shape)
    assert len(shapes) > 1


def test_every_size_runs(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    package = build_project(tmp_path / "project").package
    with Session(package) as session:
        for batch, length in ((1, 8), (2, 8), (3, 11)):
            inputs = draw_inputs(batch, length)
            write_inputs(tmp_path, inputs)
            told = call_by_ctypes("arrays", package, tmp_path)
            assert told["sizes"] == [dict(each) for each in session.sizes]
            with np.load(tmp_path / "outputs.npz") as stored:
                for got, want in zip(stored.values(), session.run(inputs).values(), strict=True):
                    np.testing.assert_array_equal(got, want)


def test_a_size_that_is_chosen_beforehand(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    package = build_project(tmp_path / "project").package
    refused = call_by_ctypes("sizes", package, tmp_path)
    with Session(package) as session:
        sizes = list(session.sizes)
        for number, size in enumerate(sizes):
            with np.load(tmp_path / f"{number}.npz") as stored:
                part = session.at(size)
                outputs = part.run({each.name: stored[each.name] for each in part.inputs})
                for place, want in enumerate(outputs.values()):
                    np.testing.assert_array_equal(stored[f"arr_{place}"], want)
    assert len(sizes) == len(refused) - 1 > 2
    assert refused[0][0] == 3
    assert refused[0][1].startswith("net has no size B=3 T=11; ")
    assert all("of net is" in message for _, message in refused[1:])


@pytest.mark.nightly
def test_a_size_longer_along_an_axis_than_the_largest_runs(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = make_project(tmp_path / "project", MODEL.replace("[1, 8], [2, 8], [2, 16], [4, 24]", "[2, 8], [1, 24]"))
    done = project.run("compile")
    assert done.returncode == 0, done.stdout + done.stderr
    inputs = draw_inputs(2, 8)
    write_inputs(tmp_path, inputs)
    assert call_by_ctypes("arrays", project.package, tmp_path)["sizes"] == [{"B": 2, "T": 8}, {"B": 1, "T": 24}]
    with Session(project.package) as session, np.load(tmp_path / "outputs.npz") as stored:
        for got, want in zip(stored.values(), session.run(inputs).values(), strict=True):
            np.testing.assert_array_equal(got, want)


def test_a_rust_program_runs_a_package(package: Path, tmp_path: Path) -> None:
    missing = [name for name in ("rustc", "bindgen") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} cannot be found")
    library, bindings = install_programs() / "lib", tmp_path / "bindings.rs"
    subprocess.run(["bindgen", "--size_t-is-usize", str(HEADER), "-o", str(bindings)], check=True)
    command = ["rustc", "--edition", "2021", "-D", "warnings", str(C_SOURCES / "run.rs"), "-o", str(tmp_path / "run")]
    command += ["-L", str(library), "-C", f"link-arg=-Wl,-rpath,{library}"]
    subprocess.run(command, env={**os.environ, "TVMBUILD_BINDINGS": str(bindings)}, check=True)
    value = np.random.default_rng(5).uniform(0, 1, (1, 1, 28, 28)).astype(np.float32)
    numbers = " ".join(map(str, value.ravel().tolist()))
    command = [str(tmp_path / "run"), str(package)]
    done = subprocess.run(command, input=numbers, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with Session(package) as session:
        (want,) = session.run({"Input3": value}).values()
    np.testing.assert_array_equal(np.array(done.stdout.split(), np.float32), want.ravel())
    done = subprocess.run([*command[:1], "absent.tar"], input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: absent.tar cannot be read: No such file or directory\n")
