from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from tvmbuild.compiler.elf import read_elf, version_tuple
from tvmbuild.errors import TvmbuildError


def test_a_real_library_is_read() -> None:
    core = next(Path(np.__file__).parent.glob("_core/_multiarray_umath.*.so"))
    elf = read_elf(core)
    assert elf.machine == platform.machine()
    assert {"memcpy", "PyObject_GetAttr"} <= elf.undefined
    assert (2, 14) <= elf.glibc < (3,)  # memcpy is of 2.14; wheels say what they need


@pytest.mark.parametrize("content", [b"", b"MZ", b"\x7fELF\x01\x01" + bytes(60)], ids=["empty", "exe", "32 bit"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mod.so"
    path.write_bytes(content)
    with pytest.raises(TvmbuildError, match=r"mod\.so is no 64-bit little-endian ELF file"):
        read_elf(path)


def test_versions_compare_as_numbers() -> None:
    assert version_tuple("2.9") < version_tuple("2.28")
