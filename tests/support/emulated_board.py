"""The emulated board of the tests, and C++ programs on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from cpp_programs import SOURCES, SUPPORT

from tvmbuild.devices.qemu.board import EmulatedBoard
from tvmbuild.devices.qemu.make import make_board
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.tvm_files import find_headers
from tvmbuild.preparing.reference import read_reference

TARGET = "aarch64-linux-gnu.2.28"


def the_board() -> EmulatedBoard:
    """Return the user's board, for tests with the marker `emulator`."""
    return make_board("aarch64")


def compile_arrays(board: EmulatedBoard, folder: Path) -> Path:
    """Compile the program that runs a package on raw arrays, by zig for the board; return it."""
    site = board.folder / "site-packages"
    libraries = [site / "tvm/lib/libtvm_runtime.so", site / "tvm_ffi/lib/libtvm_ffi.so"]
    program = folder / "arrays"
    command = [sys.executable, "-m", "ziglang", "c++", "-target", TARGET, "-std=c++17", "-O1", "-ffp-contract=off"]
    command += [f"-I{SOURCES}", f"-I{find_headers()}", str(SUPPORT / "cpp_arrays/arrays.cpp")]
    command += [str(SOURCES / "tvmbuild.cpp"), "-Wl,--no-as-needed", *map(str, libraries), "-lpthread", "-ldl"]
    command += [f"-Wl,-rpath,{library.parent}" for library in libraries]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def run_arrays(board: EmulatedBoard, program: Path, package: Path, reference: Path) -> dict[str, np.ndarray]:
    """Run the package on the board, in C++, on the reference's inputs; return its outputs."""
    info, folder = read_metadata(package), program.parent
    inputs = read_reference(reference).inputs
    for index, tensor in enumerate(info.inputs):
        (folder / f"{index}.in").write_bytes(np.ascontiguousarray(inputs[tensor.name]).tobytes())
    command = [board.qemu, "-L", board.root, program, package, folder, "2"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "2 threads\n"), done.stderr
    return {
        tensor.name: np.frombuffer((folder / f"{index}.out").read_bytes(), tensor.dtype).reshape(tensor.shape)
        for index, tensor in enumerate(info.outputs)
    }
