"""The proof that rows are independent, for operators that it sees as the importer's simpler ones, and ScatterND."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.preparing.reference import run_onnx
from tvmbuild.preparing.rows.axis import Dependent
from tvmbuild.preparing.rows.proof import compare_all, prove_rows

WIDTH, TOKENS = 8, 4
_DRAWN = np.random.default_rng(0)
WEIGHTS = {
    "square": _DRAWN.standard_normal((WIDTH, WIDTH), np.float32),
    "three": _DRAWN.standard_normal((WIDTH, 3 * WIDTH), np.float32),
    "bias": _DRAWN.standard_normal(WIDTH, np.float32),
    "bias3": _DRAWN.standard_normal(3 * WIDTH, np.float32),
    "words": _DRAWN.standard_normal((5, WIDTH), np.float32),
    "cosines": _DRAWN.standard_normal((TOKENS, WIDTH // 4), np.float32),
    "sines": _DRAWN.standard_normal((TOKENS, WIDTH // 4), np.float32),
    "places": np.array([[1], [3]], np.int64),
    "second": np.array([1], np.int64),
    "true": np.array(True),
    "count": np.array(3, np.int64),
}
Make = Callable[[int], list[onnx.NodeProto]]


def node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """Return a node; `microsoft.` begins the name of an operator of that domain, and `-` is an input left out."""
    domain = "com.microsoft" if kind.startswith("microsoft.") else ""
    names = [name.replace("-", "") for name in inputs.split()]
    made = outputs.split()
    operator = kind.removeprefix("microsoft.")
    return helper.make_node(operator, names, made, f"{made[0]}_node", domain=domain, **attributes)


def branch(_rows: int) -> list[onnx.NodeProto]:
    """Return an If whose condition is constant."""
    inner = [
        helper.make_graph([node(kind, "x", "inner")], kind, [], [helper.make_empty_tensor_value_info("inner")])
        for kind in ("Relu", "Tanh")
    ]
    return [node("If", "true", then_branch=inner[0], else_branch=inner[1])]


def loop(count: str) -> Make:
    """Return a Loop with ``count`` rounds, which double a value."""
    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in ("i",)]
    carried = helper.make_tensor_value_info("carried", TensorProto.FLOAT, None)
    condition = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("c", "d")]
    nodes = [node("Identity", "c", "d"), node("Add", "carried carried", "next")]
    made = helper.make_tensor_value_info("next", TensorProto.FLOAT, None)
    body = helper.make_graph(nodes, "body", [*ends, condition[0], carried], [condition[1], made])
    counted = [node("ArgMax", "x", "most", axis=2, keepdims=0), node("ReduceMax", "most", "rounds", keepdims=0)]
    return lambda _rows: [*(counted if count == "rounds" else []), node("Loop", f"{count} true x", "y", body=body)]


def write_rows(rows: int) -> list[onnx.NodeProto]:
    """Return a ScatterND as an exporter writes `x[:, [1, 3]] = ids`: its indices name each row."""
    indices = np.stack(np.meshgrid(np.arange(rows), [1, 3], indexing="ij"), -1).astype(np.int64)
    return [
        helper.make_node("Constant", [], ["at"], value=numpy_helper.from_array(indices)),
        node("Slice", "x first two second", "part"),
        node("ScatterND", "x at part"),
    ]


WEIGHTS |= {"first": np.array([0], np.int64), "two": np.array([2], np.int64)}
ROWWISE: dict[str, Make] = {
    "Attention": lambda _: [node("microsoft.Attention", "x three bias3 mask", num_heads=2)],
    "MultiHeadAttention": lambda _: [node("microsoft.MultiHeadAttention", "x x x bias3 mask", num_heads=2)],
    "GroupQueryAttention": lambda _: [
        node("ReduceSum", "mask second", "long64", keepdims=0),
        node("Cast", "long64", "long", to=TensorProto.INT32),
        node("Sub", "long one32", "last"),
        node("microsoft.GroupQueryAttention", "x x x - - last total", "y k v", num_heads=1, kv_num_heads=1),
    ],
    "SkipLayerNormalization": lambda _: [node("microsoft.SkipLayerNormalization", "x x bias bias")],
    "EmbedLayerNormalization": lambda _: [
        node("Cast", "ids", "ids32", to=TensorProto.INT32),
        node("microsoft.EmbedLayerNormalization", "ids32 - words words - bias bias", "y masks"),
    ],
    "FastGelu": lambda _: [node("microsoft.FastGelu", "x bias")],
    "Gelu": lambda _: [node("microsoft.Gelu", "x")],
    "QuickGelu": lambda _: [node("microsoft.QuickGelu", "x")],
    "BiasGelu": lambda _: [node("microsoft.BiasGelu", "x bias")],
    "FusedMatMul": lambda _: [node("microsoft.FusedMatMul", "x square", transB=1)],
    "RotaryEmbedding": lambda _: [node("microsoft.RotaryEmbedding", "x ids cosines sines", num_heads=2)],
    "Attention of ONNX": lambda _: [node("Attention", "x x x", q_num_heads=2, kv_num_heads=2)],
    "RotaryEmbedding of ONNX": lambda _: [node("RotaryEmbedding", "x cosines sines ids", num_heads=2)],
    "If": branch,
    "Loop": loop("count"),
    "ScatterND": write_rows,
    "ScatterND of another axis": lambda _: [
        node("Transpose", "x", "flipped", perm=[1, 0, 2]),
        node("Slice", "flipped first two first", "part"),
        node("ScatterND", "flipped places part", "written"),
        node("Transpose", "written", perm=[1, 0, 2]),
    ],
}


def make_net(rows: int, make: Make) -> onnx.ModelProto:
    """Return a network of x [rows, TOKENS, WIDTH], and ids and a mask [rows, TOKENS]."""
    constants = WEIGHTS | {"one32": np.array(1, np.int32), "total": np.array(TOKENS, np.int32)}
    graph = helper.make_graph(
        make(rows),
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, TOKENS, WIDTH]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, [rows, TOKENS]),
            helper.make_tensor_value_info("mask", TensorProto.INT32, [rows, TOKENS]),
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def draw(rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    mask = np.ones((rows, TOKENS), np.int32)
    mask[1::2, 2:] = 0
    return {
        "x": random.standard_normal((rows, TOKENS, WIDTH), np.float32),
        "ids": random.integers(0, TOKENS, (rows, TOKENS)),
        "mask": mask,
    }


AXES = {"x": 0, "ids": 0, "mask": 0}


@pytest.mark.parametrize("name", sorted(ROWWISE))
def test_rows_are_proved_and_are_those_of_the_parts(name: str) -> None:
    whole, few = make_net(5, ROWWISE[name]), make_net(2, ROWWISE[name])
    proven = prove_rows(whole, AXES, 5, "B5")
    compare_all([proven, prove_rows(few, AXES, 2, "B2")])
    assert proven.outputs["y"].axis == 0
    feed = draw(5)
    want = run_onnx(whole.SerializeToString(), feed, "whole")["y"]
    part = run_onnx(few.SerializeToString(), {key: value[:2] for key, value in feed.items()}, "part")["y"]
    np.testing.assert_allclose(part, want[:2], rtol=1e-5, atol=1e-5)
    assert not np.allclose(want[0], want[1])


MIXING: dict[str, tuple[Make, str]] = {
    "a count of all rows": (loop("rounds"), "ReduceMax rounds_node: it reduces along the axis of the batch"),
    "some rows": (
        lambda _: [
            node("Squeeze", "places second", "at"),
            node("Unsqueeze", "at second", "column"),
            node("Slice", "x first two first", "part"),
            node("ScatterND", "x places part"),
        ],
        "Slice part_node: it takes some rows of the batch",
    ),
    "places of all rows": (
        lambda _: [
            node("Constant", "", "updates", value=numpy_helper.from_array(np.zeros((2, TOKENS, WIDTH), np.float32))),
            node("ScatterND", "x places updates"),
        ],
        "ScatterND y_node: it writes to some rows of the batch",
    ),
    "scales of all rows": (
        lambda _: [
            node("DynamicQuantizeLinear", "x", "q s z"),
            node("DequantizeLinear", "q s z"),
        ],
        "DynamicQuantizeLinear q_node: no rule shows",
    ),
}


@pytest.mark.parametrize("name", sorted(MIXING))
def test_operators_that_mix_rows_are_named(name: str) -> None:
    make, message = MIXING[name]
    with pytest.raises(Dependent, match=message):
        prove_rows(make_net(5, make), AXES, 5, "B5")


def test_places_that_differ_from_row_to_row_are_refused() -> None:
    def make(rows: int) -> list[onnx.NodeProto]:
        indices = np.stack(np.meshgrid(np.arange(rows), [1, 3], indexing="ij"), -1).astype(np.int64)
        indices[1, 0, 1] = 2
        at = helper.make_node("Constant", [], ["at"], value=numpy_helper.from_array(indices))
        return [at, node("Slice", "x first two second", "part"), node("ScatterND", "x at part")]

    with pytest.raises(Dependent, match="ScatterND y_node: it writes to some rows"):
        prove_rows(make_net(5, make), AXES, 5, "B5")
