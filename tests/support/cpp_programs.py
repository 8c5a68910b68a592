"""Build and run the C++ programs of packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tvmbuild.package
from tvmbuild.cli import main

SOURCES = Path(tvmbuild.package.__file__).parent / "cpp"


@dataclass(frozen=True)
class RankedLine:
    """One class as run_model prints it."""

    index: int
    probability: float
    label: str


def build_by_cmake(folder: Path, *options: str) -> Path:
    """Build and install with the system's C++ compiler; return the installed folder. Skips where there is none."""
    # The environment's own programs first: it may not be activated.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    cmake, ninja = shutil.which("cmake", path=path), shutil.which("ninja", path=path)
    if cmake is None or not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        pytest.skip("needs cmake (the extra `dev` has it) and a C++ compiler")
    if ninja is not None:
        options = (*options, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}")
    program = shutil.which("tvmbuild", path=path) or "tvmbuild"
    build = ["-B", str(folder / "build"), f"-DTVMBUILD_PROGRAM={program}", *options]
    for command in (
        ["-S", str(SOURCES), *build],
        ["--build", str(folder / "build")],
        ["--install", str(folder / "build"), "--prefix", str(folder / "out")],
    ):
        subprocess.run([cmake, *command], check=True, stdout=subprocess.DEVNULL)
    return folder / "out"


def build_by_zig(path: Path, flags: tuple[list[str], list[str]], *names: str) -> Path:
    """Build one program with the compiler that tvmbuild depends on; ``flags`` are to compile and to link with."""
    sources = [str(SOURCES / name) for name in ("tvmbuild.cpp", *names)]
    command = [sys.executable, "-m", "ziglang", "c++", "-O1", *flags[0], *sources, "-o", str(path), *flags[1]]
    subprocess.run(command, check=True)
    return path


def read_flags(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """Return what `tvmbuild config` says to compile and to link with."""
    told = []
    for option in ("--cflags", "--libs"):
        assert main(["config", option]) == 0
        told.append(capsys.readouterr().out.split())
    return told[0], told[1]


def run_program(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run it; a death by a signal is a failure of the test whatever it expects."""
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
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
