from __future__ import annotations

import signal
import subprocess
import sys

import pytest

CRASH = """
import tvm, signal, os
from tvmbuild.stages.__main__ import _crash_at_once
_crash_at_once()
os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.compiler
def test_a_crash_shows_where_and_is_not_left_to_tvms_handler() -> None:
    ran = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in ran.stderr
    assert "Segfault encountered" not in ran.stderr
