"""Operators expressed in simpler ones: the expanded model gives the results of the original in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.importing.expand.expand import RULES, expand_operators
from tvmbuild.errors import TvmbuildError

Arrays = Mapping[str, np.ndarray]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def make_model(
    nodes: Sequence[onnx.NodeProto], data: Arrays, outputs: Sequence[str], weights: Arrays, opset: int = 17
) -> onnx.ModelProto:
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in data.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "net",
        values,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def run(model: onnx.ModelProto, data: Arrays) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, dict(data))]


def check(model: onnx.ModelProto, data: Arrays) -> onnx.ModelProto:
    """Return the expanded model, which has no operator with a rule and gives the same outputs."""
    expanded = expand_operators(model)
    assert not any(node.op_type in RULES.get(node.domain, {}) for node in expanded.graph.node)
    for got, want in zip(run(expanded, data), run(model, data), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return expanded


@st.composite
def attributes_of(draw: st.DrawFn, kind: str, directions: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {"clip": 0.5} if draw(st.booleans()) else {}
    if kind == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if kind == "RNN" and draw(st.booleans()):
        attributes["activations"] = [draw(st.sampled_from(["Relu", "Sigmoid", "Tanh"])) for _ in range(directions)]
    return attributes


@st.composite
def recurrent(draw: st.DrawFn) -> tuple[onnx.ModelProto, Arrays]:
    kind = draw(st.sampled_from(sorted(GATES)))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    steps, batch, inputs, hidden = (draw(st.integers(1, most)) for most in (5, 3, 4, 4))
    directions, width = 1 + (direction == "bidirectional"), GATES[kind] * hidden
    random = np.random.default_rng(draw(st.integers(0, 99)))

    def floats(*shape: int) -> np.ndarray:
        return random.uniform(-1, 1, shape).astype(np.float32)

    weights = {"W": floats(directions, width, inputs), "R": floats(directions, width, hidden)}
    names = ["x", "W", "R", "", "", "", "", ""]
    data = {"x": floats(steps, batch, inputs)}
    if draw(st.booleans()):
        names[3], weights["B"] = "B", floats(directions, 2 * width)
    if draw(st.booleans()):
        names[4] = "lengths"
        lengths = {"lengths": np.array([draw(st.integers(1, steps)) for _ in range(batch)], np.int32)}
        (weights if draw(st.booleans()) else data).update(lengths)
    if draw(st.booleans()):
        names[5], data["h"] = "h", floats(directions, batch, hidden)
    if kind == "LSTM" and draw(st.booleans()):
        names[6], data["c"] = "c", floats(directions, batch, hidden)
    if kind == "LSTM" and draw(st.booleans()):
        names[7], weights["P"] = "P", floats(directions, 3 * hidden)
    attributes = {"hidden_size": hidden, "direction": direction, **draw(attributes_of(kind, directions))}
    outputs = ["y", "y_h", *(["y_c"] if kind == "LSTM" else [])]
    while not names[-1]:
        names.pop()
    node = helper.make_node(kind, names, outputs, **attributes)
    return make_model([node], data, outputs, weights, draw(st.sampled_from([7, 12, 14, 21]))), data


@given(recurrent())
@settings(max_examples=60, deadline=None)
def test_recurrent_networks(drawn: tuple[onnx.ModelProto, Arrays]) -> None:
    check(*drawn)


def loop_body(stop_at: float) -> onnx.GraphProto:
    nodes = [
        helper.make_node("Mul", ["v_in", "two"], ["v_out"]),
        helper.make_node("Add", ["i_in", "one"], ["i_out"]),
        helper.make_node("Less", ["i_out", "limit"], ["go"]),
        helper.make_node("Add", ["v_out", "x"], ["each"]),
    ]
    number = [
        numpy_helper.from_array(np.array(value, np.float32), name)
        for name, value in (("two", 2), ("one", 1), ("limit", stop_at))
    ]
    inputs = [
        helper.make_tensor_value_info("n", TensorProto.INT64, []),
        helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
        helper.make_tensor_value_info("v_in", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("i_in", TensorProto.FLOAT, []),
    ]
    outputs = [
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        helper.make_tensor_value_info("v_out", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("i_out", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("each", TensorProto.FLOAT, [3]),
    ]
    return helper.make_graph(nodes, "body", inputs, outputs, number)


@pytest.mark.parametrize(("most", "stop_at", "times"), [(3, 9.0, 3), (9, 4.0, 4), (None, 2.0, 2)])
def test_a_loop_of_known_length(most: int | None, stop_at: float, times: int) -> None:
    data = {"x": np.array([1, 2, 3], np.float32)}
    weights = {"yes": np.array(True), "zero": np.array(0, np.float32)}
    weights |= {} if most is None else {"most": np.array(most)}
    names = ["" if most is None else "most", "yes", "x", "zero"]
    node = helper.make_node("Loop", names, ["y", "count", "all"], body=loop_body(stop_at))
    model = make_model([node], data, ["y", "count", "all"], weights)
    expanded = check(model, data)
    assert run(expanded, data)[2].shape == (times, 3)


def test_a_loop_that_depends_on_data_is_left() -> None:
    data = {"x": np.array([1, 2, 3], np.float32), "most": np.array(2)}
    node = helper.make_node("Loop", ["most", "yes", "x", "zero"], ["y", "count", "all"], body=loop_body(9.0))
    weights = {"yes": np.array(True), "zero": np.array(0, np.float32)}
    expanded = expand_operators(make_model([node], data, ["y", "count", "all"], weights))
    assert [each.op_type for each in expanded.graph.node] == ["Loop"]


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_that_is_taken(taken: bool) -> None:
    def branch(operator: str, name: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
        return helper.make_graph([helper.make_node(operator, ["x"], [name])], name, [], [value])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu", "a"), else_branch=branch("Neg", "b"))
    data = {"x": np.array([-1, 2, 3], np.float32)}
    expanded = check(make_model([node], data, ["y"], {"c": np.array(taken)}), data)
    assert ("Relu" in {each.op_type for each in expanded.graph.node}) == taken


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_along_another_axis(direction: int) -> None:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("s", "e")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("t", "o")]
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Relu", ["t"], ["o"])], "body", inputs, outputs
    )
    attributes = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_input_directions": [direction]}
    attributes |= {"scan_output_axes": [1], "scan_output_directions": [direction]}
    node = helper.make_node("Scan", ["first", "x"], ["last", "y"], body=body, **attributes)
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (2, 4)).astype(np.float32)}
    check(make_model([node], data, ["last", "y"], {"first": np.zeros(2, np.float32)}), data)


def test_a_model_without_such_operators_is_the_same_object() -> None:
    data = {"x": np.zeros((1, 3), np.float32)}
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], data, ["y"], {})
    assert expand_operators(model) is model


def test_shapes_and_constants_are_computed() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "i"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    data = {"x": np.zeros((4, 3, 2), np.float32)}
    weights = {"i": np.array([0]), "rest": np.array([-1])}
    expanded = check(make_model(nodes, data, ["y"], weights), data)
    assert [each.op_type for each in expanded.graph.node] == ["Reshape"]


def test_functions_of_the_models_own() -> None:
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    data = {"x": np.ones(3, np.float32)}
    node = helper.make_node("Twice", ["x"], ["y"], domain="own")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("x", "y")]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    graph = helper.make_graph([node], "net", values[:1], values[1:])
    model = helper.make_model(graph, functions=[twice], opset_imports=imports, ir_version=8)
    assert [each.op_type for each in check(model, data).graph.node] == ["Add"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lengths", [(4, 4, 4), (1, 4, 3)])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_reversed_sequences(known: bool, lengths: tuple[int, ...], axes: tuple[int, int]) -> None:
    time, batch = axes
    given = {"lengths": np.array(lengths)}
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (4, 3, 2) if time == 0 else (3, 4, 2)).astype(np.float32)}
    node = helper.make_node("ReverseSequence", ["x", "lengths"], ["y"], time_axis=time, batch_axis=batch)
    weights, data = (given, data) if known else ({}, data | given)
    check(make_model([node], data, ["y"], weights), data)


def test_an_exporters_names_of_dimensions_do_not_hide_shapes() -> None:
    data = {"x": np.zeros((4, 3, 2), np.float32)}
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Shape", ["r"], ["y"])]
    model = make_model(nodes, data, ["y"], {})
    del model.graph.value_info[:]
    model.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, ["unk__42", 3, 2]))
    nodes.append(helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT))
    graph = helper.make_graph(nodes, "net", list(model.graph.input), [helper.make_empty_tensor_value_info("z")])
    graph.value_info.extend(model.graph.value_info)
    named = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert "Shape" not in {node.op_type for node in expand_operators(named).graph.node}


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_constants_are_computed_in_the_sense_of_their_opset(operator: str) -> None:
    data = {"x": np.zeros((2, 3, 4), np.float32)}
    nodes = [helper.make_node(operator, ["w"], ["s"], axis=1), helper.make_node("Add", ["x", "s"], ["y"])]
    weights = {"w": np.random.default_rng(0).uniform(-1, 1, (2, 3, 4)).astype(np.float32)}
    model = make_model(nodes, data, ["y"], weights, opset=11)
    np.testing.assert_allclose(run(expand_operators(model), data)[0], run(model, data)[0], rtol=1e-6)


def test_constants_keep_their_type() -> None:
    data = {"x": np.zeros((1, 3), np.int32)}
    nodes = [helper.make_node("ReduceSumSquare", ["w"], ["s"]), helper.make_node("Add", ["x", "s"], ["y"])]
    model = make_model(nodes, data, ["y"], {"w": np.array([[1, 2, 3]], np.int32)})
    (got,) = run(expand_operators(model), data)
    assert got.dtype == np.int32
    assert got.tolist() == [[14, 14, 14]]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_number_of_an_iteration_has_the_shape_that_the_body_declares(rank: int) -> None:
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, [1] * rank)]
    inputs.append(helper.make_tensor_value_info("go", TensorProto.BOOL, []))
    outputs = [helper.make_tensor_value_info("on", TensorProto.BOOL, [])]
    outputs.append(helper.make_tensor_value_info("row", TensorProto.FLOAT, [1] * rank + [3]))
    nodes = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Gather", ["x", "i"], ["row"])]
    loop = helper.make_node("Loop", ["most", "yes"], ["y"], body=helper.make_graph(nodes, "body", inputs, outputs))
    data = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    model = make_model([loop], data, ["y"], {"most": np.array(2), "yes": np.array(True)})
    assert run(check(model, data), data)[0].shape == (2, *[1] * rank, 3)


def test_many_shapes_one_after_another_are_no_nesting() -> None:
    nodes, last = [], "x"
    for i in range(40):
        nodes += [
            helper.make_node("Shape", [last], [f"s{i}"]),
            helper.make_node("Gather", [f"s{i}", "last"], [f"n{i}"]),
            helper.make_node("Div", [f"n{i}", "two"], [f"h{i}"]),
            helper.make_node("Concat", ["one", "two", f"h{i}"], [f"apart{i}"], axis=0),
            helper.make_node("Reshape", [last, f"apart{i}"], [f"a{i}"]),
            helper.make_node("Concat", ["one", f"n{i}"], [f"together{i}"], axis=0),
            helper.make_node("Reshape", [f"a{i}", f"together{i}"], [f"r{i}"]),
        ]
        last = f"r{i}"
    data = {"x": np.arange(8, dtype=np.float32).reshape(1, 8)}
    weights = {name: np.array([value]) for name, value in (("one", 1), ("two", 2), ("last", 1))}
    expanded = check(make_model(nodes, data, [last], weights), data)
    assert {node.op_type for node in expanded.graph.node} == {"Reshape"}


def test_copies_of_a_body_share_its_constants() -> None:
    data = {"x": np.array([1, 2, 3], np.float32)}
    weights = {"yes": np.array(True), "zero": np.array(0, np.float32), "most": np.array(8)}
    loop = helper.make_node("Loop", ["most", "yes", "x", "zero"], ["y", "count", "all"], body=loop_body(99.0))
    expanded = check(make_model([loop], data, ["y", "count", "all"], weights), data)
    factors = {node.input[1] for node in expanded.graph.node if node.op_type == "Mul"}
    assert len(factors) == 1


@given(
    size=st.integers(1, 9),
    length=st.one_of(st.none(), st.integers(1, 12)),
    parts=st.sampled_from([1, 2]),
    form=st.sampled_from(["whole", "half", "inverse", "inverse half"]),
    axis=st.sampled_from([0, 1, -3]),
    opset=st.sampled_from([17, 20]),
)
@settings(deadline=None, max_examples=40)
def test_dft(*, size: int, length: int | None, parts: int, form: str, axis: int, opset: int) -> None:
    parts = {"half": 1, "inverse half": 2}.get(form, parts)
    if form == "inverse half":
        size = max(size, 2) if length is None else length // 2 + 1
    shape = [3, 2, parts]
    shape[axis] = size
    data = {"x": np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)}
    weights: dict[str, np.ndarray] = {} if length is None else {"n": np.array(length)}
    attributes: dict[str, Any] = {"inverse": int("inverse" in form), "onesided": int("half" in form)}
    inputs = ["x", "" if length is None else "n"]
    if opset >= 20:
        inputs.append("axis")
        weights["axis"] = np.array(axis)
    else:
        attributes["axis"] = axis
    check(make_model([helper.make_node("DFT", inputs, ["y"], **attributes)], data, ["y"], weights, opset), data)


@pytest.mark.parametrize("window", ["none", "constant", "an input"])
@pytest.mark.parametrize(("samples", "step", "length", "onesided"), [(40, 5, 8, 1), (33, 8, 9, 0), (16, 3, 16, 1)])
def test_stft(window: str, samples: int, step: int, length: int, onesided: int) -> None:
    random = np.random.default_rng(0)
    data = {"x": random.uniform(-1, 1, (2, samples, 1)).astype(np.float32)}
    weights: dict[str, np.ndarray] = {"step": np.array(step), "length": np.array(length)}
    if window != "none":
        (weights if window == "constant" else data)["window"] = np.hanning(length).astype(np.float32)
    inputs = ["x", "step", "" if window == "none" else "window", "length"]
    node = helper.make_node("STFT", inputs, ["y"], onesided=onesided)
    check(make_model([node], data, ["y"], weights), data)


@pytest.mark.parametrize("opset", [11, 17, 18, 22])
@pytest.mark.parametrize(("p", "axis"), [(1, 0), (2, 1), (2, -1)])
def test_lp_normalization(opset: int, p: int, axis: int) -> None:
    data = {"x": np.random.default_rng(0).uniform(-1, 1, (3, 4, 5)).astype(np.float32)}
    data["x"][0] = data["x"][:, 1] = data["x"][:, :, 2] = 0
    node = helper.make_node("LpNormalization", ["x"], ["y"], p=p, axis=axis)
    (got,) = run(expand_operators(make_model([node], data, ["y"], {}, opset)), data)
    norm = np.linalg.norm(data["x"], p, axis, keepdims=True)
    np.testing.assert_allclose(got, np.divide(data["x"], norm, where=norm > 0, out=np.zeros_like(got)), rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "row"),
    [(np.float32, [np.nan, 1]), (np.float32, [1e-25, 1e-25]), (np.float16, [300, 300]), (np.float16, [1e-4, 1e-4])],
)
def test_lp_normalization_at_the_edges(dtype: type, row: list[float]) -> None:
    data: Arrays = {"x": np.array([row], dtype)}
    node = helper.make_node("LpNormalization", ["x"], ["y"])
    model = make_model([node], data, ["y"], {}, 17)
    (got,) = run(expand_operators(model), data)
    assert got.dtype == dtype
    wide = data["x"].astype(np.float32)
    norm = np.sqrt(np.sum(wide * wide))
    np.testing.assert_allclose(got, wide / norm if norm != 0 else 0 * wide, rtol=2e-3)


def test_an_inverse_of_other_frequencies_is_refused() -> None:
    data = {"x": np.zeros((1, 5, 2), np.float32)}
    node = helper.make_node("DFT", ["x", "n"], ["y"], inverse=1, onesided=1)
    with pytest.raises(TvmbuildError, match="its axis has 5 elements for 6 samples") as refused:
        expand_operators(make_model([node], data, ["y"], {"n": np.array(6)}))
    assert "slice or pad the axis to 4 elements first" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("frequencies", "length", "attributes"),
    [(1, None, {"inverse": 1, "onesided": 1}), (1, 0, {"inverse": 1, "onesided": 1}), (4, 0, {}), (4, -1, {})],
)
def test_a_transform_to_no_samples_is_refused(frequencies: int, length: int | None, attributes: dict[str, int]) -> None:
    data = {"x": np.zeros((1, frequencies, 2), np.float32)}
    node = helper.make_node("DFT", ["x", "" if length is None else "n"], ["y"], **attributes)
    weights = {} if length is None else {"n": np.array(length)}
    model = make_model([node], data, ["y"], {})
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    with pytest.raises(TvmbuildError, match=f"its length is {length or 0}"):
        expand_operators(model)


@pytest.mark.parametrize(("step", "length", "message"), [(0, 4, "0 samples apart"), (4, 0, "its length is 0")])
def test_frames_of_no_samples_are_refused(step: int, length: int, message: str) -> None:
    data = {"x": np.zeros((1, 16, 1), np.float32)}
    model = make_model([helper.make_node("STFT", ["x", "step", "", "length"], ["y"])], data, ["y"], {})
    for name, value in (("step", step), ("length", length)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    with pytest.raises(TvmbuildError, match=message):
        expand_operators(model)


def test_a_transform_too_long_for_a_matrix_is_refused() -> None:
    data = {"x": np.zeros((1, 16000, 1), np.float32)}
    model = make_model([helper.make_node("DFT", ["x"], ["y"], onesided=1)], data, ["y"], {})
    with pytest.raises(TvmbuildError, match=r"DFT \(output 'y'\) cannot be built: it transforms 16000 samples"):
        expand_operators(model)
