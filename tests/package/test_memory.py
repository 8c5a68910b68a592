"""The memory that a package states, beside the memory that a process takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_package import build_package

from tvmbuild.cli import main
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.runtime.machine import MOST_BYTES_OF_MALLOC

pytestmark = pytest.mark.compiler
MEASURE = """
import ctypes, sys, tvmbuild
def read(name):
    line, = (line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) * 1024
session = tvmbuild.load(sys.argv[1], 1)
(inputs,) = ({each.name: session.empty(each.name)} for each in session.inputs)
for value in inputs.values():
    value[...] = 1
run = session.bind(inputs)
if sys.argv[2] == "malloc":
    for _ in range(2):
        run()
ctypes.CDLL(None).malloc_trim(0)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak of resident memory begins anew
before = read("VmRSS")
kept = run()
print(read("VmHWM") - before)
"""
"""Print the bytes by which a call raises the peak of resident memory."""
SLACK = 0.05, 400_000
"""The part of the workspace, and the bytes, for the pages that the call touches besides."""


def make_model(path: Path, side: int) -> Path:
    """Write a network with tensors of several sizes that live at once: two branches, a product and a pooling.

    Its kernels allocate nothing themselves, as one with padding may.
    """
    weights = {
        "first": np.full((8, 3, 1, 1), 0.1, np.float32),
        "left": np.full((8, 8, 1, 1), 0.2, np.float32),
        "right": np.full((8, 8, 1, 1), 0.1, np.float32),
        "last": np.full((16, 8, 1, 1), 0.1, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"]),
        helper.make_node("Conv", ["a", "left"], ["b"]),
        helper.make_node("Conv", ["a", "right"], ["c"]),
        helper.make_node("Mul", ["b", "c"], ["d"]),
        helper.make_node("Conv", ["d", "last"], ["e"], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["e"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 1, 1])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize(("side", "allocator"), [(256, "malloc"), (768, "pool")])
def test_a_call_takes_the_workspace_that_the_package_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], side: int, allocator: str
) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("this kernel does not reset the peak of resident memory")
    model = make_model(tmp_path / "net.onnx", side)
    package = build_package(model, tmp_path)
    stated = read_metadata(package).workspace
    assert stated is not None
    assert (stated <= MOST_BYTES_OF_MALLOC) == (allocator == "malloc")
    command = [sys.executable, "-c", MEASURE, str(package), allocator]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert abs(int(done.stdout) - stated) < SLACK[0] * stated + SLACK[1], (done.stdout, stated)
    capsys.readouterr()
    assert main(["check", str(model), "--cpu", "x86-64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workspace"] == stated
