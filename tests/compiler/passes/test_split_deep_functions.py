"""Chains of operators that read their operand several times: expressions stay short, and numbers right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx_graphs import node
from tvm import tirx

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import list_nodes
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.cpu.rules import schedule_uncovered
from tvmbuild.compiler.schedules.gpu.rules import schedule_rest

pytestmark = pytest.mark.compiler

SaveModel = Callable[..., Path]
SHAPE = (1, 8, 12, 12)
MOST = 600
"""The largest number of reads in a function."""
GROWING = ("HardSwish", "Mish", "Softsign", "square", "residual", "gate")
"""The operators of a chain; all of them read their operand at least twice."""


def link(kind: str, before: str, older: str, out: str) -> list[onnx.NodeProto]:
    if kind == "square":
        return [node("Mul", before, before, out=f"{out}s"), node("Sigmoid", f"{out}s", out=out)]
    if kind == "residual":
        return [node("HardSwish", before, out=f"{out}h"), node("Add", f"{out}h", older, out=out)]
    if kind == "gate":
        return [node("HardSigmoid", older, out=f"{out}g"), node("Mul", f"{out}g", before, out=out)]
    return [node(kind, before, out=out)]


def draw_chain(seed: int, length: int) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    """Return a chain with residuals from older values, in half of the cases after a convolution."""
    rng = np.random.RandomState(seed)
    nodes, weights, values = list[onnx.NodeProto](), dict[str, np.ndarray](), ["x"]
    if seed % 2:
        size = seed % 4  # 1 or 3
        weights["w"] = np.random.RandomState(seed).normal(0, 0.2, (8, 8, size, size)).astype("float32")
        nodes.append(node("Conv", "x", "w", out="c", pads=[size // 2] * 4))
        values.append("c")
    for index in range(length):
        kind = str(rng.choice(GROWING)) if seed else "HardSwish"
        values.append("y" if index == length - 1 else f"v{index}")
        nodes += link(kind, values[-2], str(rng.choice(values[-6:-1])), values[-1])
    return nodes, weights


def count_reads(mod: tvm.ir.IRModule) -> int:
    """Return the largest number of reads in a function."""
    functions = [each for each in mod.functions.values() if isinstance(each, tirx.PrimFunc)]
    return max(len(list_nodes(each, tvm.ir.TensorLoad)) for each in functions)


@pytest.mark.parametrize("seed", range(4))
def test_a_drawn_chain_is_short_and_right(
    seed: int, save_model: SaveModel, cpu: tvm.target.Target, gpu: tvm.target.Target
) -> None:
    path = save_model(*draw_chain(seed, 14), SHAPE, 18)
    lowered = lower(import_onnx(path), cpu)
    assert count_reads(schedule_uncovered(lowered.mod, cpu)) <= MOST
    assert count_reads(schedule_rest(lower(import_onnx(path), gpu).mod, gpu)) <= MOST
    data = np.random.RandomState(seed).normal(0.5, 2, SHAPE).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    np.testing.assert_allclose(build_here(lowered, cpu)({"x": data})["y"], want, rtol=1e-4, atol=1e-5)


def test_a_short_chain_stays_one_function(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    lowered = lower(import_onnx(save_model(*draw_chain(0, 7), SHAPE, 18)), cpu)
    assert len([each for each in lowered.mod.functions.values() if isinstance(each, tirx.PrimFunc)]) == 1
