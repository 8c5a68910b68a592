from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from onnx_graphs import Graph, conv, node
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.passes.widen_conv1d import widen_conv1d
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.tasks import extract_tasks
from tvmbuild.preparing.reference import run_onnx

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(11)


def draw(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def graph(shape: tuple[int, ...], *nodes: Any, **weights: np.ndarray) -> Graph:
    return nodes, weights, shape


def convolve(channels: int, out: int, kernel: int, size: int, **attributes: Any) -> Graph:
    return conv(RANDOM, channels, out, kernel, (size,), node("Relu", "a"), **attributes)


GRAPHS: dict[str, Graph] = {
    "same": convolve(16, 24, 3, 50, pads=[1, 1]),
    "one element": convolve(8, 16, 1, 1),
    "prime": convolve(7, 13, 5, 101, pads=[0, 3]),
    "strided": convolve(12, 32, 3, 37, strides=[2], pads=[1, 1]),
    "dilated": convolve(8, 16, 3, 41, dilations=[4], pads=[4, 4]),
    "groups": convolve(16, 32, 3, 29, group=4, pads=[1, 1]),
    "depthwise": convolve(24, 24, 5, 31, group=24, pads=[2, 2]),
    "depthwise, strided and dilated": convolve(29, 29, 3, 64, group=29, strides=[3], dilations=[2]),
    "by the output's size": convolve(6, 8, 4, 19, auto_pad="SAME_UPPER", strides=[2]),
    "two with GELU between": graph(
        (1, 10, 48),
        node("Conv", "x", "w", "b", out="a", pads=[1, 1]),
        node("Div", "a", "root", out="s"),
        node("Erf", "s", out="e"),
        node("Add", "e", "one", out="f"),
        node("Mul", "a", "f", out="g"),
        node("Conv", "g", "v", out="c", strides=[2], pads=[1, 1]),
        node("Transpose", "c", perm=[0, 2, 1]),
        w=draw(16, 10, 3), b=draw(16), v=draw(12, 16, 3), root=np.float32(1.41421), one=np.float32(1),
    ),
    "residual": graph(
        (2, 16, 33),
        node("Conv", "x", "w", out="a", pads=[1, 1]),
        node("Add", "a", "x", out="r"),
        node("Clip", "r", "low", "high", out="c"),
        node("Conv", "c", "w", pads=[2, 2], dilations=[2]),
        w=draw(16, 16, 3), low=np.float32(0), high=np.float32(6),
    ),
    "branches": graph(
        (1, 8, 40),
        node("Conv", "x", "w", out="a", pads=[1, 1]),
        node("Conv", "x", "v", out="c"),
        node("Concat", "a", "c", out="d", axis=1),
        node("Conv", "d", "u"),
        w=draw(8, 8, 3), v=draw(16, 8, 1), u=draw(5, 24, 1),
    ),
    "max pool": graph(
        (1, 8, 45),
        node("Conv", "x", "w", out="a"),
        node("MaxPool", "a", kernel_shape=[3], strides=[2], pads=[1, 1]),
        w=draw(16, 8, 3),
    ),
    "average pool": graph((2, 5, 23), node("AveragePool", "x", kernel_shape=[4], strides=[3], pads=[1, 2])),
    "average pool, rounded up": graph(
        (1, 6, 22), node("AveragePool", "x", kernel_shape=[3], strides=[2], ceil_mode=1, count_include_pad=1)
    ),
    "mean": graph(
        (1, 8, 45), node("Conv", "x", "w", out="a"), node("GlobalAveragePool", "a"), w=draw(16, 8, 3)
    ),
    "transposed": graph(
        (1, 12, 21), node("ConvTranspose", "x", "w", "b", strides=[2], pads=[1, 1]), w=draw(12, 7, 4), b=draw(7)
    ),
    "transposed, patches": graph(
        (1, 12, 21),
        node("Conv", "x", "v", out="a"),
        node("ConvTranspose", "a", "w", strides=[4]),
        v=draw(12, 12, 1), w=draw(12, 6, 4),
    ),
    "transposed, by groups": graph(
        (1, 12, 9), node("ConvTranspose", "x", "w", strides=[3], output_padding=[1], group=3), w=draw(12, 2, 5)
    ),
}  # fmt: skip


def check(path: Path, shape: tuple[int, ...], cpu: tvm.target.Target, step: float = 1e-4) -> Lowered:
    lowered = lower(import_onnx(path), cpu)
    applied = apply_records(lowered, cpu, ms.database.MemoryDatabase())
    machine, data = relax.VirtualMachine(build_executable(applied.mod, cpu), tvm.cpu()), draw(*shape)
    (want,) = run_onnx(path.read_bytes(), {"x": data}, path.name).values()
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(data)).numpy(), want, rtol=1e-4, atol=step * 1.01)
    return lowered


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_numbers_are_onnx_runtime_s(name: str, save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes, weights, shape = GRAPHS[name]
    lowered = check(save_model(nodes, weights, shape), shape, cpu)
    assert "SLOW" not in str(lowered.notes)
    assert not [task.name for task in extract_tasks(lowered) if "1d" in task.name]


@pytest.mark.parametrize("seed", range(8))
def test_drawn_convolutions(seed: int, save_model: SaveModel, cpu: tvm.target.Target) -> None:
    random = np.random.default_rng(seed)
    groups, kernel = int(random.choice([1, 1, 2, 8])), int(random.integers(1, 8))
    inputs, outputs = groups * int(random.integers(1, 9)), groups * int(random.integers(1, 9))
    attributes = {
        "strides": [int(random.integers(1, 4))],
        "dilations": [int(random.integers(1, 4))],
        "pads": [int(each) for each in random.integers(0, kernel, 2)],
    }
    nodes, weights, shape = convolve(inputs, outputs, kernel, int(random.integers(20, 120)), group=groups, **attributes)
    check(save_model(nodes, weights, shape), shape, cpu)


def test_they_are_in_nhwc_with_what_follows(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes, weights, shape = GRAPHS["two with GELU between"]
    lowered = lower(import_onnx(save_model(nodes, weights, shape)), cpu)
    assert lowered.layout == "NHWC"
    names = [task.name for task in extract_tasks(lowered)]
    assert sum(name.startswith("conv2d_") and "erf" in name for name in names) == 1
    # The input comes in NCW; the output's transpose is the layout that it has anyway.
    assert sum("transpose" in name for name in names) == 1


def test_quantised_ones_are_sums_of_integers(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    scales = {"s": np.float32(0.02), "z": np.uint8(128), "m": np.full(16, 0.01, "float32"), "n": np.zeros(16, "int8")}
    nodes = [
        node("QuantizeLinear", "x", "s", "z", out="q"),
        node("DequantizeLinear", "q", "s", "z", out="d"),
        node("DequantizeLinear", "w", "m", "n", out="v", axis=0),
        node("Conv", "d", "v", out="a", pads=[1, 1]),
        node("QuantizeLinear", "a", "s", "z", out="p"),
        node("DequantizeLinear", "p", "s", "z"),
    ]
    weights = {**scales, "w": RANDOM.randint(-127, 128, (16, 8, 3)).astype("int8")}
    path = save_model(nodes, weights, (1, 8, 40))
    names = [task.name for task in extract_tasks(check(path, (1, 8, 40), cpu, step=0.02))]
    assert any(name.startswith("conv2d_int") for name in names), names


def test_a_graph_without_such_stays_as_it_is(save_convnet: SaveModel) -> None:
    mod = import_onnx(save_convnet()).mod
    assert widen_conv1d(mod).same_as(mod)


def test_gpus_keep_them(save_model: SaveModel, gpu: tvm.target.Target) -> None:
    nodes, weights, shape = GRAPHS["same"]
    imported = import_onnx(save_model(nodes, weights, shape))
    assert operator_calls(imported.mod, "relax.nn.conv1d")
    names = [task.name for task in extract_tasks(lower(imported, gpu))]
    assert any("conv1d" in name for name in names)
