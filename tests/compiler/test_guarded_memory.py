"""No code reads or writes beyond the end of a tensor: its numbers may be right, and the process crashes later.

The tests of drawn models run again with memory that ends where a page ends.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from nights import ALL, VARIABLE
from preloaded import preload

pytestmark = [pytest.mark.compiler, pytest.mark.toolchain, pytest.mark.nightly]
PROJECT = Path(__file__).resolve().parents[2]
BEYOND = """
import ctypes, sys
import tvm
tensor = tvm.runtime.empty((32,), "float32")
ctypes.memset(tensor.data_ptr(), 0, 4 * 32 + int(sys.argv[1]))
"""


@pytest.mark.parametrize("beyond", [0, 1])
def test_the_guard_ends_a_process_that_writes_beyond_a_tensor(beyond: int) -> None:
    done = subprocess.run([sys.executable, "-c", BEYOND, str(beyond)], env=preload("guarded_memory"), check=False)
    assert (done.returncode == 0) == (beyond == 0)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "tests",
    [
        "test_drawn_families.py::test_one",
        "test_drawn_graphs.py",
        "schedules/test_partition.py",
        "kernels/test_recurrence.py",
    ],
)
def test_nothing_is_read_or_written_beyond_tensors(tests: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-x", "-p", "no:cacheprovider", "-m", "not nightly"]
    environment = {**preload("guarded_memory"), VARIABLE: ALL}
    done = subprocess.run(
        [*command, f"tests/compiler/{tests}"], env=environment, cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
