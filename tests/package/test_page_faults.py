"""A call's memory is there for the next call, so that calls have no page faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import parser
from small_package import build_package

pytestmark = pytest.mark.compiler
CALLS, MOST = 20, 5
BRANCHES = 8


def make_branches() -> onnx.ModelProto:
    """Return a network whose tensors of a megabyte are all in memory at once, far more than the largest block."""
    shape = "float[1, 4, 256, 256]"
    lines = [
        f"p{n} = MaxPool <kernel_shape = [{2 * n + 3}, 1], pads = [{n + 1}, 0, {n + 1}, 0]> (x)"
        for n in range(BRANCHES)
    ]
    lines.append(f"y = Sum ({', '.join(f'p{n}' for n in range(BRANCHES))})")
    head = f'<ir_version: 8, opset_import: ["": 17]> pools ({shape} x) => ({shape} y)'
    return parser.parse_model(f"{head} {{ {' '.join(lines)} }}")


CHILD = f"""
import resource, sys
import numpy as np
from tvmbuild.package.runtime.session import Session

with Session(sys.argv[1], threads=1) as session:
    call = session.bind({{"x": np.zeros((1, 4, 256, 256), "float32")}})
    for _ in range({CALLS}):
        call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({CALLS}):
        call()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / {CALLS})
"""


def test_later_calls_have_no_page_faults(tmp_path: Path) -> None:
    onnx.save(make_branches(), tmp_path / "net.onnx")
    package = build_package(tmp_path / "net.onnx", tmp_path)
    command = [sys.executable, "-c", CHILD, str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < MOST  # 256 pages a tensor
