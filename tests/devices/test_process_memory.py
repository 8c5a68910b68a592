from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest

from tvmbuild.devices.process_memory import measure_call, peak_memory_mb


def test_the_memory_of_a_call_is_that_of_its_peak() -> None:
    with Path(sys.executable).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:

        def call() -> int:
            touched = len(pages[::4096])  # pages of files that stay mapped, as weights do, do not count
            return touched + len(b"x" * (80 << 20))

        taken = measure_call(call)
    if taken is None:
        pytest.skip("this kernel does not reset the peak of resident memory")
    assert abs(taken - (80 << 20)) < 4 << 20


def test_peak_memory_grows_with_use() -> None:
    before = peak_memory_mb()
    block = bytearray(80 << 20)
    block[::4096] = b"x" * len(block[::4096])
    after = peak_memory_mb()
    if before is not None and after is not None:
        assert after >= before
        assert after > 80
