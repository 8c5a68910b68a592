"""The memory that a package states, beside the memory that a process takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_package import build_package

from tvmbuild.cli import main
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.memory import find_memory
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.runtime.machine import MOST_BYTES_OF_MALLOC

pytestmark = pytest.mark.compiler
MEASURE = """
import ctypes, sys, tvmbuild
def read(name):
    line, = (line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) * 1024
session = tvmbuild.load(sys.argv[1], int(sys.argv[3]))
(inputs,) = ({each.name: session.empty(each.name)} for each in session.inputs)
for value in inputs.values():
    value[...] = 1
run = session.bind(inputs)
if sys.argv[2] == "malloc":
    for _ in range(2):
        run()
ctypes.CDLL(None).malloc_trim(0)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak of resident memory begins again
before = read("VmRSS")
kept = run()
print(read("VmHWM") - before)
"""
"""Print the bytes by which a call raises the peak of resident memory."""
SLACK = 0.05, 400_000
"""The part of the workspace, and the bytes, for the pages that the call touches besides."""


def make_branches(path: Path, side: int) -> Path:
    """Write a network with tensors of several sizes that live at once: two branches, a product and a pooling.

    Its kernels allocate nothing themselves.
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
    return save(path, nodes, weights, (side, 16))


def make_padded(path: Path, side: int) -> Path:
    """Write a network of convolutions that pad, whose kernels copy whole pictures or rows."""
    sizes = {"a": (8, 3, 3, 3), "b": (16, 8, 3, 3), "c": (16, 16, 5, 5), "d": (8, 16, 3, 3)}
    weights = {name: np.full(shape, 0.01, np.float32) for name, shape in sizes.items()}
    nodes, last = [], "x"
    for name, shape in sizes.items():
        nodes.append(helper.make_node("Conv", [last, name], [f"c{name}"], pads=[shape[2] // 2] * 4))
        nodes.append(helper.make_node("Relu", [f"c{name}"], [f"r{name}"]))
        last = f"r{name}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"]))
    return save(path, nodes, weights, (side, 8))


def save(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], size: tuple[int, int]) -> Path:
    """Write a network from a picture ``x`` to ``y``; ``size`` is the side of the one, and the channels of the other."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size[0], size[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, size[1], 1, 1])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize(
    ("make", "side", "allocator"),
    [
        (make_branches, 256, "malloc"),
        (make_branches, 768, "pool"),
        (make_padded, 256, "malloc"),
        (make_padded, 640, "pool"),
    ],
)
def test_a_call_takes_the_memory_that_the_package_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path, int], Path], side: int, allocator: str
) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("this kernel does not reset the peak of resident memory")
    model = make(tmp_path / "net.onnx", side)
    package = build_package(model, tmp_path)
    info = read_metadata(package)
    assert info.workspace is not None
    assert info.scratch is not None
    assert (info.workspace <= MOST_BYTES_OF_MALLOC) == (allocator == "malloc")
    assert info.scratch.of_threads(2) < 100_000
    for threads in (1, 2):
        command = [sys.executable, "-c", MEASURE, str(package), allocator, str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        stated = info.workspace + info.scratch.of_threads(threads)
        assert abs(int(done.stdout) - stated) < SLACK[0] * stated + SLACK[1], (done.stdout, stated)
    if allocator == "malloc":
        check_estimate(info, model, capsys)
        assert main(["run", str(package), "--memory"]) == 0
        told = capsys.readouterr().out
        assert f"its largest arrays: {find_memory(info).list_largest()}" in told
        measured = re.search(r"measured: a call took ([0-9.]+) MB; workspace and scratch are ([0-9.]+) MB", told)
        assert measured
        assert abs(float(measured[1]) - float(measured[2])) < SLACK[0] * float(measured[2]) + SLACK[1] / 1e6


def check_estimate(info: PackageInfo, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that `tvmbuild check` states the package's memory without a build."""
    assert info.scratch is not None
    capsys.readouterr()
    assert main(["check", str(model), "--cpu", "x86-64", "--json", "--memory", "1MB"]) == 1
    told = json.loads(capsys.readouterr().out)
    memory = find_memory(info)
    assert told["memory"]["workspace"] == info.workspace
    assert told["workspace"] <= told["memory"]["workspace"]
    assert told["memory"]["scratch"] == info.scratch.of_threads(1)
    assert told["memory"]["weights"] == pytest.approx(memory.weights, abs=2000)
    assert told["memory"]["code"] == pytest.approx(memory.code, rel=0.5)
