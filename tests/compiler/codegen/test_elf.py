from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tvmbuild.compiler.codegen.elf import read_elf, read_symbol, version_tuple
from tvmbuild.errors import TvmbuildError


def test_a_real_library_is_read() -> None:
    core = next(Path(np.__file__).parent.glob("_core/_multiarray_umath.*.so"))
    elf = read_elf(core)
    assert elf.machine == platform.machine()
    assert {"memcpy", "PyObject_GetAttr"} <= elf.undefined
    assert (2, 14) <= elf.glibc < (3,)  # memcpy has the version 2.14; wheels state the versions that they need


@pytest.mark.parametrize(
    "content",
    [b"", b"MZ", b"\x7fELF\x01\x01", b"\x7fELF\x03\x01" + bytes(60), b"\x7fELF\x02\x02" + bytes(60)],
    ids=["empty", "exe", "cut short", "no class", "big-endian"],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mod.so"
    path.write_bytes(content)
    with pytest.raises(TvmbuildError, match=r"mod\.so is not a little-endian ELF file"):
        read_elf(path)


@pytest.mark.parametrize(
    ("triple", "machine", "calls"),
    [
        ("x86_64-linux-gnu", "x86_64", ""),
        ("aarch64-linux-gnu", "aarch64", ""),
        ("arm-linux-gnueabihf", "arm", ""),
        ("riscv64-linux-gnu", "riscv64", "lp64d"),
        ("x86-linux-gnu", "machine 3 of 32 bits", ""),
    ],
)
def test_objects_of_32_and_of_64_bits(tmp_path: Path, triple: str, machine: str, calls: str) -> None:
    source = tmp_path / "a.c"
    source.write_text("extern float sought(float); float found[2] = {1, 2}; float f(float x) { return sought(x); }")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", triple, "-c", "-O1", "a.c", "-o", "a.o"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "zig")})
    elf = read_elf(tmp_path / "a.o")
    assert (elf.machine, elf.calls, elf.glibc) == (machine, calls, (0,))
    assert elf.undefined & {"sought", "found", "f"} == {"sought"}
    assert read_symbol(tmp_path / "a.o", "found") == struct.pack("<2f", 1, 2)
    with pytest.raises(KeyError):
        read_symbol(tmp_path / "a.o", "sought")


def test_versions_compare_as_numbers() -> None:
    assert version_tuple("2.9") < version_tuple("2.28")
