"""Operators of com.microsoft as ONNX's own: the expanded model gives the results of the original in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.expand import RULES, expand_operators
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError

Arrays = Mapping[str, np.ndarray]
RANDOM = np.random.default_rng(3)


def draw(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name: floats(*shape) for name, shape in shapes.items()}


def floats(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def make_model(
    operator: str, inputs: Sequence[str], data: Arrays, outputs: int = 1, attributes: Mapping[str, Any] | None = None
) -> onnx.ModelProto:
    """Return a model of one node; inputs that ``data`` lacks are left out, and those in capitals are constants."""
    domain = "" if operator == "SimplifiedLayerNormalization" else "com.microsoft"
    names = [name if name in data else "" for name in inputs]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, made, domain=domain, **(attributes or {}))
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in data.items()}
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in data.items() if not n.isupper()],
        [helper.make_empty_tensor_value_info(name) for name in made],
        [onnx.numpy_helper.from_array(array, name) for name, array in data.items() if name.isupper()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def run(model: onnx.ModelProto, data: Arrays) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    return [np.asarray(each) for each in session.run(None, {n: a for n, a in data.items() if n in names})]


def check(model: onnx.ModelProto, data: Arrays) -> None:
    expanded = expand_operators(model)
    assert not any(node.op_type in RULES.get(node.domain, {}) for node in expanded.graph.node)
    assert {node.domain for node in expanded.graph.node} == {""}
    for got, want in zip(run(expanded, data), run(model, data), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


NORM = ("x", "skip", "gamma", "beta", "bias")
RMS = ("x", "skip", "gamma", "bias")
EMBED = ("words", "segments", "W", "P", "S", "G", "B", "mask", "places")
_NODES: list[tuple[str, Sequence[str], Arrays, dict[str, Any]]] = [
    ("Gelu", ["x"], draw(x=(2, 7)), {}),
    ("QuickGelu", ["x"], draw(x=(2, 7)), {}),
    ("QuickGelu", ["x"], draw(x=(2, 7)), {"alpha": 1.0}),
    ("BiasGelu", ["x", "b"], draw(x=(2, 7), b=(7,)), {}),
    ("FastGelu", ["x", "b"], draw(x=(2, 7), b=(7,)), {}),
    ("FastGelu", ["x"], draw(x=(2, 7)), {}),
    ("FusedMatMul", ["a", "b"], draw(a=(2, 5, 3), b=(2, 7, 5)), {"transA": 1, "transB": 1, "alpha": 0.3}),
    ("FusedMatMul", ["a", "b"], draw(a=(5, 2, 3), b=(3, 4)), {}),
    ("FusedMatMul", ["a", "b"], draw(a=(5, 2, 3), b=(2, 3, 4)), {"transBatchA": 1}),
    (
        "FusedGemm",
        ["a", "b", "c"],
        draw(a=(5, 3), b=(4, 3), c=(4,)),
        {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.2},
    ),
    (
        "FusedConv",
        ["x", "w", "b"],
        draw(x=(1, 3, 6, 6), w=(4, 3, 3, 3), b=(4,)),
        {"activation": "Relu", "pads": [1, 1, 1, 1]},
    ),
    (
        "FusedConv",
        ["x", "w", "b", "z"],
        draw(x=(1, 3, 6, 6), w=(4, 3, 3, 3), b=(4,), z=(1, 4, 4, 4)),
        {"activation": "Clip", "activation_params": [0.0, 0.5]},
    ),
    ("SkipLayerNormalization", NORM, draw(x=(2, 3, 8), skip=(2, 3, 8), gamma=(8,), beta=(8,), bias=(8,)), {}),
    ("SkipLayerNormalization", NORM, draw(x=(2, 3, 8), skip=(3, 8), gamma=(8,)), {"epsilon": 1e-3}),
    ("SkipSimplifiedLayerNormalization", RMS, draw(x=(2, 3, 8), skip=(2, 3, 8), gamma=(8,)), {}),
    ("SimplifiedLayerNormalization", ["x", "gamma"], draw(x=(2, 3, 8), gamma=(8,)), {"axis": -1}),
]


@pytest.mark.parametrize(("operator", "inputs", "data", "attributes"), _NODES)
def test_node(operator: str, inputs: Sequence[str], data: Arrays, attributes: dict[str, Any]) -> None:
    check(make_model(operator, inputs, data, 1, attributes), data)


@pytest.mark.parametrize(
    "integers",
    [{"segments": [[0, 1, 1]], "mask": [[1, 1, 0]]}, {"places": [[2, 0, 4]]}],
)
def test_embeddings(integers: dict[str, list[list[int]]]) -> None:
    data = {name: np.array(values, np.int32) for name, values in {"words": [[1, 4, 2]], **integers}.items()}
    data |= draw(W=(6, 8), P=(5, 8), G=(8,), B=(8,)) | (draw(S=(2, 8)) if "segments" in integers else {})
    check(make_model("EmbedLayerNormalization", EMBED, data, 2), data)


@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_the_sum_that_a_norm_was_made_of(operator: str) -> None:
    inputs = NORM if operator == "SkipLayerNormalization" else RMS
    data = {name: floats(2, 3, 8) if name in ("x", "skip") else floats(8) for name in inputs}
    model = make_model(operator, inputs, data, 4)
    model.graph.node[0].output[1:3] = ["", ""]
    del model.graph.output[1:3]
    check(model, data)


MASKS: dict[str, np.ndarray | None] = {
    "none": None,
    "of keys": np.array([[1, 1, 1, 1, 0], [1, 0, 1, 1, 1]], np.int32),
    "of pairs": RANDOM.integers(0, 2, (2, 5, 5)).astype(np.int32),
    "lengths": np.array([3, 5], np.int32),
}
ATTENTION = ("x", "W", "B", "mask", "past", "added", "long")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}, {"scale": 0.3, "qkv_hidden_sizes": [6, 6, 9]}])
def test_attention(mask: str, attributes: dict[str, Any]) -> None:
    width = sum(attributes.get("qkv_hidden_sizes", [6] * 3))
    data = {"x": floats(2, 5, 7), "W": floats(7, width), "B": floats(width)}
    if (given := MASKS[mask]) is not None:
        data["mask"] = given
    check(make_model("Attention", ATTENTION, data, 1, {"num_heads": 3, **attributes}), data)


@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}])
def test_attention_to_what_was_before(attributes: dict[str, Any]) -> None:
    data = {"x": floats(2, 2, 7), "W": floats(7, 18), "B": floats(18), "past": floats(2, 2, 3, 4, 2)}
    data |= {"mask": np.array([[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]], np.int32)}
    check(make_model("Attention", ATTENTION, data, 2, {"num_heads": 3, **attributes}), data)


def test_attention_with_a_bias() -> None:
    data = {"x": floats(2, 5, 7), "W": floats(7, 18), "B": floats(18), "added": floats(1, 3, 5, 5)}
    check(make_model("Attention", ATTENTION, data, 1, {"num_heads": 3}), data)


HEADS = ("q", "k", "v", "B", "mask", "added", "keys", "values")


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}, {"scale": 0.3}])
def test_heads(mask: str, attributes: dict[str, Any]) -> None:
    data = {"q": floats(2, 5, 6), "k": floats(2, 5, 6), "v": floats(2, 5, 9), "B": floats(21)}
    if (given := MASKS[mask]) is not None:
        data["mask"] = given
    check(make_model("MultiHeadAttention", HEADS, data, 1, {"num_heads": 3, **attributes}), data)


@pytest.mark.parametrize(
    "data",
    [
        {"q": floats(2, 5, 12), "k": floats(2, 3, 7, 4), "v": floats(2, 3, 7, 4)},
        {"q": floats(2, 5, 12), "k": floats(2, 7, 12), "v": floats(2, 7, 12), "added": floats(1, 3, 5, 7)},
    ],
)
def test_heads_of_other_forms(data: Arrays) -> None:
    check(make_model("MultiHeadAttention", HEADS, data, 1, {"num_heads": 3}), data)


@pytest.mark.parametrize("packed", ["q", "k"])
def test_heads_that_are_packed(packed: str) -> None:
    """ONNX Runtime lacks packed heads on CPUs, so it gets the same data in separate parts."""
    parts = {name: floats(2, 5, 3, 4) for name in "qkv"}
    apart = {name: part.reshape(2, 5, 12) for name, part in parts.items()}
    joined = {name: apart[name] for name in "q" if packed == "k"}
    joined[packed] = np.stack([part for name, part in parts.items() if name not in joined], 3)
    models = [make_model("MultiHeadAttention", HEADS, data, 1, {"num_heads": 3}) for data in (joined, apart)]
    (got,), (want,) = run(expand_operators(models[0]), joined), run(models[1], apart)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}])
def test_heads_with_what_was_before(attributes: dict[str, Any]) -> None:
    data = {"q": floats(2, 2, 6), "k": floats(2, 2, 6), "v": floats(2, 2, 6), "B": floats(18)}
    data |= {"keys": floats(2, 3, 4, 2), "values": floats(2, 3, 4, 2), "added": floats(2, 1, 2, 6)}
    check(make_model("MultiHeadAttention", HEADS, data, 3, {"num_heads": 3, **attributes}), data)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("part", [8, 4])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("positions", [np.array([3]), np.array([[5, 0, 2], [1, 1, 7]])])
def test_rotation(interleaved: int, part: int, flat: bool, positions: np.ndarray) -> None:
    data = {"x": floats(2, 3, 16) if flat else floats(2, 2, 3, 8), "p": positions}
    data |= {"C": floats(9, part // 2), "S": floats(9, part // 2)}
    attributes = {"interleaved": interleaved, "num_heads": 2} | ({} if part == 8 else {"rotary_embedding_dim": part})
    check(make_model("RotaryEmbedding", ["x", "p", "C", "S"], data, 1, attributes), data)


GROUPED = ("q", "k", "v", "keys", "values", "lengths", "TOTAL", "C", "S", "places", "added")


def grouped(tokens: int, past: int, lengths: Sequence[int], total: int) -> dict[str, np.ndarray]:
    batch = len(lengths)
    data = {"q": floats(batch, tokens, 96), "k": floats(batch, tokens, 32), "v": floats(batch, tokens, 32)}
    data |= {"keys": floats(batch, 2, past, 16), "values": floats(batch, 2, past, 16)}
    return data | {"lengths": np.array(lengths, np.int32) - 1, "TOTAL": np.array(total, np.int32)}


STEPS = {
    "first": grouped(5, 0, [5], 5),
    "first of two, one shorter": grouped(5, 0, [5, 3], 5),
    "first into a long cache": grouped(5, 9, [5], 5),
    "next": grouped(1, 4, [5, 5], 5),
    "next into a long cache": grouped(1, 9, [5, 2], 5),
    "some into a long cache": grouped(3, 9, [7], 7),
}
ROTARY = {"do_rotary": 1}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "attributes",
    [{}, {"scale": 0.3, "softcap": 2.0}, {"local_window_size": 2}, ROTARY, {**ROTARY, "rotary_interleaved": 1}],
)
def test_grouped_heads(step: str, attributes: dict[str, Any]) -> None:
    data = dict(STEPS[step])
    if "do_rotary" in attributes:
        data |= {"C": floats(9, 8), "S": floats(9, 8)}
    model = make_model("GroupQueryAttention", GROUPED, data, 3, {"num_heads": 6, "kv_num_heads": 2, **attributes})
    valid = [int(each) + 1 for each in data["lengths"]]
    expanded = expand_operators(model)
    for got, want in zip(run(expanded, data), run(model, data), strict=True):
        assert got.shape == want.shape
        for one, other, count in zip(got, want, valid, strict=True):  # the values after the last token are arbitrary
            rows = (slice(None), slice(count)) if one.ndim == 3 else slice(min(count, len(one)))
            np.testing.assert_allclose(one[rows], other[rows], rtol=1e-4, atol=1e-5)


def test_grouped_heads_of_one_input() -> None:
    data = {name: array for name, array in STEPS["next"].items() if name not in "kv"} | {"q": floats(2, 1, 160)}
    data |= {"added": floats(1, 6, 1, 5)}
    check(make_model("GroupQueryAttention", GROUPED, data, 3, {"num_heads": 6, "kv_num_heads": 2}), data)


@pytest.mark.parametrize(
    ("operator", "attributes", "said"),
    [
        ("Attention", {"num_heads": 3, "do_rotary": 1}, "its attribute do_rotary is not known here"),
        ("GroupQueryAttention", {"num_heads": 3, "kv_num_heads": 1, "smooth_softmax": 1}, "smooth_softmax"),
        ("RotaryEmbedding", {"is_packed_batching": 1}, "is_packed_batching"),
    ],
)
def test_what_is_not_known_is_refused(operator: str, attributes: dict[str, Any], said: str) -> None:
    data = {"x": floats(2, 5, 6), "w": floats(6, 18)}
    with pytest.raises(TvmbuildError, match=said):
        expand_operators(make_model(operator, ["x", "w"], data, 1, attributes))


def test_an_operator_of_another_domain_is_not_taken_for_onnxs() -> None:
    data = {"x": floats(1, 4)}
    model = make_model("Trilu", ["x"], data)
    model.graph.node[0].domain = "org.example"
    model.opset_import.append(helper.make_opsetid("org.example", 1))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y0", TensorProto.FLOAT, [1, 4]))
    with pytest.raises(TvmbuildError, match=r"Trilu \(output 'y0'\) of org\.example cannot be built: there is no code"):
        import_model(model, "net")
