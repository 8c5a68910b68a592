"""Build and run the C++ programs of packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from made_once import make_once

import tvmbuild
import tvmbuild.package
from tvmbuild.cli import main
from tvmbuild.package.ranking import rank_classes
from tvmbuild.package.runtime.host import find_device
from tvmbuild.package.runtime.session import Session

SUPPORT = Path(__file__).parent
SOURCES = Path(tvmbuild.package.__file__).parent / "cpp"
PROGRAMS = {"run_model": ("run_model", "read_picture"), "bench_model": ("bench_model",)}
"""Program → its sources, besides the library."""


@dataclass(frozen=True)
class RankedLine:
    """One class as run_model prints it."""

    index: int
    probability: float
    label: str


def build_by_cmake(folder: Path, *options: str, source: Path = SOURCES) -> Path:
    """Build and install with the system's C++ compiler, for tests with the marker `toolchain`; return the folder."""
    # The environment's own programs first: it may not be activated.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    cmake, ninja = shutil.which("cmake", path=path) or "cmake", shutil.which("ninja", path=path)
    options = (*options, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}")
    program = shutil.which("tvmbuild", path=path) or "tvmbuild"
    build = ["-B", str(folder / "build"), f"-DTVMBUILD_PROGRAM={program}", f"-DTVMBUILD_CMAKE_DIR={SOURCES}", *options]
    for command in (
        ["-S", str(source), *build],
        ["--build", str(folder / "build")],
        ["--install", str(folder / "build"), "--prefix", str(folder / "out")],
    ):
        subprocess.run([cmake, *command], check=True, stdout=subprocess.DEVNULL)
    return folder / "out"


def install_programs() -> Path:
    """Return the folder that the programs are installed in, built with the system's C++ compiler, once."""
    return make_once("C++ programs", build_by_cmake) / "out"


def program_of_sizes() -> Path:
    """Return the program that runs a package at several sizes, built once."""
    return make_once("C++ sizes", lambda folder: build_by_cmake(folder, source=SUPPORT / "cpp_sizes")) / "build/sizes"


def use_pythons_vulkan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let C++ programs load the Vulkan runtime that Python loads; skip the test if that is TVM's."""
    find_device("vulkan")
    found = re.search(r"/\S*libtvmbuild_vulkan\.so", Path("/proc/self/maps").read_text())
    if found is None:
        pytest.skip("the Vulkan runtime is another than libtvmbuild_vulkan.so")
    monkeypatch.setenv("TVMBUILD_VULKAN_LIBRARY", found[0])


def run_as_python_does(package: Path, folder: Path, calls: Sequence[Mapping[str, np.ndarray]]) -> str:
    """Run the package on the inputs of each call, whose size may be another one, in C++ and in Python.

    Outputs, new ones and copies, must have the same bits. Return what the program printed.
    """
    words = []
    with tvmbuild.load(package, 2) as session:
        for number, inputs in enumerate(calls):
            for place, info in enumerate(session.inputs):
                (folder / f"{number}-{place}.in").write_bytes(inputs[info.name].tobytes())
            words.append(",".join("x".join(map(str, inputs[info.name].shape)) for info in session.inputs))
        wanted = [session.run(dict(inputs)) for inputs in calls]
        names = [info.name for info in session.outputs]
    done = run_program(program_of_sizes(), package, folder, *words)
    assert done.returncode == 0, done.stderr
    for number, outputs in enumerate(wanted):
        for place, name in enumerate(names):
            for end in ("out", "copy"):
                got = np.fromfile(folder / f"{number}-{place}.{end}", np.float32).reshape(outputs[name].shape)
                np.testing.assert_array_equal(got, outputs[name])
    return done.stdout


def build_by_zig(folder: Path, flags: tuple[list[str], list[str] | None], target: str | None = None) -> Path:
    """Build both programs with tvmbuild's own C++ compiler; return the folder with them and their objects.

    ``flags`` are those to compile and those to link; None builds only objects.
    """
    compiler = [sys.executable, "-m", "ziglang", "c++", *(["-target", target] if target else [])]
    for source in SOURCES.glob("*.cpp"):
        command = [*compiler, "-O1", *flags[0], "-c", str(source), "-o", str(folder / f"{source.stem}.o")]
        subprocess.run(command, check=True)
    if flags[1] is not None:
        for program, sources in PROGRAMS.items():
            objects = [str(folder / f"{name}.o") for name in ("tvmbuild", *sources)]
            subprocess.run([*compiler, *objects, "-o", str(folder / program), *flags[1]], check=True)
    return folder


def read_flags(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """Return the flags of `tvmbuild config` to compile and to link."""
    told = []
    for option in ("--cflags", "--libs"):
        assert main(["config", option]) == 0
        told.append(capsys.readouterr().out.split())
    return told[0], told[1]


def run_program(
    program: Path | str, *arguments: object, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the program; a death by a signal always fails the test."""
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode in (0, 1, 2), f"exit code {done.returncode}: {done.stderr[-3000:]}"
    assert "Sanitizer" not in done.stderr, done.stderr[-3000:]
    assert "runtime error" not in done.stderr, done.stderr[-3000:]
    return done


def read_ranking(output: str) -> list[RankedLine]:
    """Return the classes that run_model printed."""
    lines = re.findall(r"^ *(\d+)  (\d\.\d{6})  (.*)$", output, re.MULTILINE)
    return [RankedLine(int(index), float(probability), label) for index, probability, label in lines]


def read_range(output: str) -> tuple[float, float]:
    """Return the least and the greatest number of the input tensor as printed."""
    (found,) = re.findall(r"^range: (\S+) to (\S+)$", output, re.MULTILINE)
    return float(found[0]), float(found[1])


def expect_pythons_ranking(output: str, package: Path, picture: Path) -> None:
    """Compare the classes that run_model printed with Python's for the same picture."""
    with Session(package) as session:
        (tensor_name,) = (each.name for each in session.inputs)
        tensor = session.preprocess(picture)
        (scores,) = session.run({tensor_name: tensor}).values()
        want = rank_classes(scores, session.metadata.labels, 5)
    got = read_ranking(output)
    assert [each.index for each in got] == [each.index for each in want]
    assert [each.label for each in got] == [each.label or "-" for each in want]
    np.testing.assert_allclose([g.probability for g in got], [w.probability for w in want], atol=1e-4)
    assert read_range(output) == (round(float(tensor.min()), 6), round(float(tensor.max()), 6))
