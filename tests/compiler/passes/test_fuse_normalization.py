"""Normalisations in the exporters' forms become one function each; operators fused to a product stay with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx_graphs import node

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

SaveModel = Callable[..., Path]
Nodes = Sequence[onnx.NodeProto]
RANDOM = np.random.RandomState(6)
SHAPE = (2, 19, 72)
WEIGHTS = {
    "last": np.array([-1]),
    "two": np.array(2, "float32"),
    "small": np.array(1e-5, "float32"),
    "root": np.array(-0.5, "float32"),
    "one": np.array(1, "float32"),
    "g": RANDOM.uniform(0.5, 1, 72).astype("float32"),
    "b": RANDOM.uniform(-1, 1, 72).astype("float32"),
    "w": RANDOM.uniform(-0.2, 0.2, (72, 72)).astype("float32"),
}


def moments(data: str = "x") -> list[onnx.NodeProto]:
    return [
        node("ReduceMean", data, "last", out="mean"),
        node("Sub", data, "mean", out="centred"),
        node("Pow", "centred", "two", out="squares"),
        node("ReduceMean", "squares", "last", out="variance"),
        node("Add", "variance", "small", out="more"),
    ]


def divide_by_root_mean_square(data: str) -> list[onnx.NodeProto]:
    return [
        node("Mul", data, data, out="squares"),
        node("ReduceMean", "squares", "last", out="mean"),
        node("Add", "mean", "small", out="more"),
        node("Sqrt", "more", out="root_mean"),
        node("Div", data, "root_mean", out="normal"),
        node("Mul", "normal", "g"),
    ]


SCALED = [node("Mul", "normal", "g", out="scaled"), node("Add", "scaled", "b")]
NORMS: dict[str, Nodes] = {
    "divided": [
        *moments(),
        node("Sqrt", "more", out="deviation"),
        node("Div", "centred", "deviation", out="normal"),
        *SCALED,
    ],
    "by-reciprocal": [
        *moments(),
        node("Sqrt", "more", out="deviation"),
        node("Reciprocal", "deviation", out="inverse"),
        node("Mul", "centred", "inverse", out="normal"),
        *SCALED,
    ],
    "by-power": [
        *moments(),
        node("Pow", "more", "root", out="inverse"),
        node("Mul", "centred", "inverse", out="normal"),
        *SCALED,
    ],
    "root-mean-square": divide_by_root_mean_square("x"),
    "length-one": [
        node("ReduceL2", "x", "last", out="norm"),
        node("Clip", "norm", "small", out="safe"),
        node("Div", "x", "safe"),
    ],
    "softmax-by-hand": [
        node("ReduceMax", "x", "last", out="most"),
        node("Sub", "x", "most", out="less"),
        node("Exp", "less", out="powers"),
        node("ReduceSum", "powers", "last", out="total"),
        node("Div", "powers", "total"),
    ],
    "log-sum-exp": [node("ReduceLogSumExp", "x", "last", out="y")],
    "after-a-sum": [
        node("Add", "x", "b", out="sum"),
        node("LayerNormalization", "sum", "g", "b", axis=-1),
    ],
    "instances": [node("InstanceNormalization", "x", "ones", "zeros")],
}


def count_tasks(path: Path, target: tvm.target.Target) -> list[str]:
    return [task.name for task in extract_tasks(lower(import_onnx(path), target))]


def check(path: Path, target: tvm.target.Target, shape: tuple[int, ...] = SHAPE) -> None:
    data = np.random.RandomState(8).normal(0.5, 2, shape).astype("float32")
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    got = build_here(lower(import_onnx(path), target), target)({"x": data})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


def save(save_model: SaveModel, nodes: Nodes, opset: int = 18, shape: tuple[int, ...] = SHAPE) -> Path:
    given = {**WEIGHTS, "ones": np.ones(shape[1], "float32"), "zeros": np.zeros(shape[1], "float32")}
    read = {name for each in nodes for name in each.input}
    return save_model(nodes, {name: value for name, value in given.items() if name in read}, shape, opset)


@pytest.mark.compiler
@pytest.mark.parametrize("name", NORMS)
def test_each_spelling_is_one_function_with_the_same_numbers(
    name: str, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    path = save(save_model, NORMS[name])
    assert len(count_tasks(path, cpu)) == 1
    check(path, cpu)


@pytest.mark.compiler
def test_what_is_used_elsewhere_stays_a_value_of_its_own(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes = [
        *NORMS["divided"][:-1],
        node("Add", "scaled", "b", out="normed"),
        node("Mul", "mean", "centred", out="other"),
        node("Add", "normed", "other"),
    ]
    check(save(save_model, nodes), cpu)
    nodes = [*NORMS["divided"][:-1], node("Add", "scaled", "b", out="normed"), node("MatMul", "normed", "w", out="p")]
    nodes += [node("Add", "p", "normed", out="sum"), node("LayerNormalization", "sum", "g", "b", axis=-1)]
    path = save(save_model, nodes)
    names = count_tasks(path, cpu)
    assert len(names) == 3
    assert "matmul_add" in names, "the sum before the second norm is the product's, done to its tiles"
    check(path, cpu)


@pytest.mark.compiler
def test_squares_of_a_sum_that_is_used_elsewhere_belong_to_their_norm(
    save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    """FuseOps cannot fuse them with the product before the sum, because the sum is used after them, too."""
    product = [node("MatMul", "x", "w", out="p"), node("Add", "p", "x", out="sum")]
    path = save(save_model, [*product, *divide_by_root_mean_square("sum")])
    assert sorted(count_tasks(path, cpu)) == ["matmul_add", "multiply_mean_add_tir_sqrt_divide_multiply"]
    check(path, cpu)


@pytest.mark.compiler
def test_a_chain_of_softmax_and_operators_is_fused_as_before(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes = [node("MatMul", "x", "w", out="p"), node("Add", "p", "b", out="s"), node("Softmax", "s", out="t", axis=-1)]
    path = save(save_model, [*nodes, node("Mul", "t", "g")])
    assert count_tasks(path, cpu) == ["matmul_add", "softmax_multiply"]


def test_convolutions_and_what_precedes_them_are_fused_as_before(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    weights = {
        "w": RANDOM.uniform(-1, 1, (8, 1, 3, 3)).astype("float32"),
        "p": RANDOM.uniform(-1, 1, (8, 8, 1, 1)).astype("float32"),
        "s": RANDOM.uniform(-1, 1, (8, 1, 1)).astype("float32"),
    }
    nodes = [
        node("Mul", "x", "s", out="scaled"),
        node("LeakyRelu", "scaled", out="active"),
        node("Conv", "active", "w", out="deep", group=8, pads=[1, 1, 1, 1]),
        node("Mul", "deep", "s", out="again"),
        node("Conv", "again", "p", out="wide"),
        node("Add", "wide", "active"),
    ]
    names = count_tasks(save_model(nodes, weights, (1, 8, 10, 10)), cpu)
    assert [name for name in names if "conv2d" in name] == ["conv2d_multiply", "conv2d_add"]


@pytest.mark.compiler
@pytest.mark.parametrize(("opset", "scales"), [(18, 4), (21, 12)])
def test_a_group_norm_keeps_its_digits(opset: int, scales: int, save_model: SaveModel, cpu: tvm.target.Target) -> None:
    shape, random = (2, 12, 9, 11), np.random.RandomState(9)
    weights = {name: random.uniform(0.5, 1, scales).astype("float32") for name in ("g", "b")}
    path = save_model([node("GroupNormalization", "x", "g", "b", num_groups=4)], weights, shape, opset)
    data = random.normal(3000, 1, shape).astype("float32")
    groups = data.astype("float64").reshape(2, 4, -1)
    centred = groups - groups.mean(-1, keepdims=True)
    normal = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(shape)
    scale, bias = (np.repeat(weights[name], 12 // scales).reshape(1, 12, 1, 1) for name in ("g", "b"))
    got = build_here(lower(import_onnx(path), cpu), cpu)({"x": data})["y"]
    np.testing.assert_allclose(got, normal * scale + bias, atol=2e-3)


@pytest.mark.compiler
def test_a_tanh_gelu_calls_no_power(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes = [
        node("Pow", "x", "three", out="cube"),
        node("Pow", "x", "four", out="fourth"),
        node("Add", "cube", "fourth"),
    ]
    weights = {"three": np.array(3, "float32"), "four": np.array(4, "float32")}
    path = save_model(nodes, weights, SHAPE, 18)
    assert "power" not in " ".join(count_tasks(path, cpu))
    check(path, cpu)
