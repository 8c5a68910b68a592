"""Elements that rounding errors move far are judged by that movement; faults elsewhere are found as before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from tvmbuild.base.specs import Tolerance
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.decisions import name_change, watch_decisions
from tvmbuild.preparing.reference import Reference, open_onnx
from tvmbuild.preparing.rounding import measure_rounding, shake_inputs

Change = Callable[[dict[str, np.ndarray]], None]
ROWS, WIDTH, KEPT = 24, 16, 8


def make_model(nodes: Sequence[onnx.NodeProto], outputs: Mapping[str, int], weights: Mapping[str, np.ndarray]) -> bytes:
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, WIDTH])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def measure(model: bytes, inputs: Mapping[str, np.ndarray]) -> Reference:
    outputs = open_onnx(model, "net")(inputs)
    rounding = measure_rounding(model, inputs, outputs, "fp32", partial(open_onnx, what="net", optimized=True))
    return Reference(inputs, outputs, rounding=rounding.moved)


def make_weights(seed: int) -> dict[str, np.ndarray]:
    random = np.random.RandomState(seed)
    return {
        "w": random.normal(size=(WIDTH, WIDTH)).astype(np.float32),
        "s": random.normal(size=(WIDTH, 1)).astype(np.float32),
        "k": np.array([KEPT], np.int64),
        "flat": np.array([ROWS], np.int64),
    }


def make_detector(weights: Mapping[str, np.ndarray]) -> bytes:
    """Return a network that scores its rows, and returns the best with their features, as detectors do."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Tanh", ["m"], ["features"]),
        helper.make_node("MatMul", ["features", "s"], ["column"]),
        helper.make_node("Reshape", ["column", "flat"], ["scores"]),
        helper.make_node("TopK", ["scores", "k"], ["best", "rows"]),
        helper.make_node("Gather", ["features", "rows"], ["found"]),
    ]
    return make_model(
        nodes, {"best": TensorProto.FLOAT, "rows": TensorProto.INT64, "found": TensorProto.FLOAT}, weights
    )


def make_tie(seed: int) -> dict[str, np.ndarray]:
    """Return inputs whose third and fourth best rows differ in their features, and by rounding in their score."""
    weights = make_weights(seed)
    x = np.random.RandomState(seed + 100).uniform(-0.3, 0.3, (ROWS, WIDTH)).astype(np.float32)
    scores = np.tanh(x.astype(np.float64) @ weights["w"]) @ weights["s"].astype(np.float64)
    first, _, third, fourth, *_, last = np.argsort(-scores[:, 0])
    low, high = 0.0, 1.0
    for _ in range(60):  # a row on the way from the worst one to the best one has the third one's score
        middle = (low + high) / 2
        blend = x[last] + middle * (x[first] - x[last]).astype(np.float64)
        score = np.tanh(blend @ weights["w"]) @ weights["s"].astype(np.float64)
        low, high = (middle, high) if score[0] < scores[third, 0] else (low, middle)
    x[fourth] = blend.astype(np.float32)
    return {"x": x}


def swap(outputs: Mapping[str, np.ndarray], first: int, second: int) -> dict[str, np.ndarray]:
    swapped = {name: value.copy() for name, value in outputs.items()}
    for value in swapped.values():
        value[[first, second]] = value[[second, first]]
    return swapped


@pytest.mark.parametrize("seed", range(4))
def test_rows_with_equal_scores_may_change_places(seed: int) -> None:
    weights = make_weights(seed)
    reference = measure(make_detector(weights), make_tie(seed))
    best = reference.outputs["best"]
    ties = [place for place in range(KEPT - 1) if best[place] - best[place + 1] < 1e-6]
    assert ties, best
    swapped = swap(reference.outputs, ties[0], ties[0] + 1)
    assert Reference(reference.inputs, reference.outputs).compare(swapped, Tolerance()).problem is not None
    result = reference.compare(swapped, Tolerance())
    assert result.problem is None
    assert "of 8 elements of rows" in (result.unjudged or "")
    assert any("found" in line for line in result.list_warnings())
    other = next(place for place in range(KEPT - 1) if not {place, place + 1} & {ties[0], ties[0] + 1})
    assert reference.compare(swap(reference.outputs, other, other + 1), Tolerance()).problem is not None


@pytest.mark.parametrize("seed", range(30))
def test_planted_faults_are_found_beside_such_rows(seed: int) -> None:
    weights, inputs = make_weights(seed % 4), make_tie(seed % 4)
    reference = measure(make_detector(weights), inputs)
    random = np.random.RandomState(seed)
    faulty = {name: value.copy() for name, value in weights.items()}
    if seed % 3 == 0:
        faulty["w"][:, random.randint(WIDTH)] *= -1
    elif seed % 3 == 1:
        faulty["s"] *= np.float32(1.01)
    else:
        faulty["w"][random.randint(WIDTH), random.randint(WIDTH)] = 0
    got = open_onnx(make_detector(faulty), "net")(inputs)
    assert reference.compare(got, Tolerance()).problem is not None


def test_an_index_may_be_large() -> None:
    """The default tolerance of a number as large as the index would hide that the index moves."""
    weights = {**make_weights(0), "far": np.asarray(100_000, np.int64)}
    nodes = [*onnx.load_model_from_string(make_detector(weights)).graph.node]
    nodes.append(helper.make_node("Add", ["rows", "far"], ["places"]))
    reference = measure(make_model(nodes, {"places": TensorProto.INT64}, weights), make_tie(0))
    best = open_onnx(make_detector(make_weights(0)), "net")(reference.inputs)["best"]
    tie = int(np.argmin(-np.diff(best)))
    assert reference.compare(swap(reference.outputs, tie, tie + 1), Tolerance()).problem is None


def test_an_element_that_amplifies_rounding_is_told_from_its_neighbours() -> None:
    steep = np.ones(WIDTH, np.float32)
    steep[3] = 3e8
    nodes = [helper.make_node("Mul", ["x", "steep"], ["m"]), helper.make_node("Sin", ["m"], ["y"])]
    model = make_model(nodes, {"y": TensorProto.FLOAT}, {"steep": steep})
    inputs = {"x": np.random.RandomState(0).uniform(-1, 1, (ROWS, WIDTH)).astype(np.float32)}
    reference = measure(model, inputs)
    got = {"y": reference.outputs["y"].copy()}
    got["y"][:, 3] = -got["y"][:, 3]
    result = reference.compare(got, Tolerance())
    assert result.problem is None
    assert result.unjudged == f"{ROWS} of {ROWS * WIDTH} elements of y"
    got["y"][5, 4] += 0.01
    assert "wrong in 1 of" in str(reference.compare(got, Tolerance()).problem)


@pytest.mark.parametrize("seed", range(20))
def test_another_right_implementation_is_never_wrong(seed: int) -> None:
    """Each element has its own luck in the runs with changed inputs, and an output has many elements."""
    steep = np.full(WIDTH, 3000, np.float32)
    nodes = [helper.make_node("Mul", ["x", "steep"], ["m"]), helper.make_node("Sin", ["m"], ["y"])]
    model = make_model(nodes, {"y": TensorProto.FLOAT}, {"steep": steep})
    inputs = {"x": np.random.RandomState(seed).uniform(-1, 1, (ROWS, WIDTH)).astype(np.float32)}
    reference = measure(model, inputs)
    other = shake_inputs(inputs, 1e-6, np.random.RandomState(seed + 100))
    assert reference.compare(open_onnx(model, "net")(other), Tolerance()).problem is None


def test_a_usual_network_keeps_nothing() -> None:
    weights = make_weights(0)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])]
    inputs = {"x": np.random.RandomState(0).uniform(-1, 1, (ROWS, WIDTH)).astype(np.float32)}
    reference = measure(make_model(nodes, {"y": TensorProto.FLOAT}, {"w": weights["w"]}), inputs)
    assert reference.rounding == {}
    assert reference.compare(reference.outputs, Tolerance()).list_warnings() == ()


def test_exact_scores_and_counts_stay_exact() -> None:
    """A mask of zeros, and whole numbers among the inputs, are the same in every right implementation."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Greater", ["r", "zero"], ["above"]),
        helper.make_node("Cast", ["above"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["r"], ["steps"], to=TensorProto.INT64),
    ]
    model = make_model(
        nodes, {"mask": TensorProto.FLOAT, "steps": TensorProto.INT64}, {"zero": np.zeros(1, np.float32)}
    )
    assert set(watch_decisions(model).scores) == {"r"}
    counts = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) - 50
    assert measure(model, {"x": counts}).rounding == {}
    halves = counts + np.float32(0.5)
    halves[:, 0] = -halves[:, 0].clip(min=0)
    assert measure(model, {"x": halves}).rounding == {}


def test_a_watched_model_computes_the_same_until_its_scores_are_changed() -> None:
    model, inputs = make_detector(make_weights(1)), make_tie(1)
    watched = watch_decisions(model)
    assert watched.scores == {"scores": np.float32}
    run = open_onnx(watched.model, "net")
    still = run({**inputs, name_change("scores"): np.zeros((), np.float32)})
    for name, value in open_onnx(model, "net")(inputs).items():
        np.testing.assert_array_equal(still[name], value)
    last = np.argmin(still["scores"])
    change = np.where(np.arange(ROWS) == last, np.float32(100), np.float32(0))
    assert run({**inputs, name_change("scores"): change})["rows"][0] == last


def test_scalars_are_shaken_too() -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0),
        helper.make_node("Mul", ["largest", "factor"], ["product"]),
        helper.make_node("Floor", ["product"], ["y"]),
    ]
    inputs = {"x": np.full((ROWS, WIDTH), 1.1, np.float32)}
    factor = np.asarray(3 / 1.1, np.float32)  # the product is 3, or a little less
    reference = measure(make_model(nodes, {"y": TensorProto.FLOAT}, {"factor": factor}), inputs)
    assert reference.outputs["y"].shape == ()
    assert reference.rounding["y"] == 1


def test_the_number_of_elements_may_change() -> None:
    """A length that rounding decides is marked, and the rows are compared as a set."""
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["product"]),
        helper.make_node("Floor", ["product"], ["whole"]),
        helper.make_node("Sub", ["whole", "two"], ["rest"]),
        helper.make_node("NonZero", ["rest"], ["found"]),
    ]
    rows = helper.make_node("Transpose", ["found"], ["y"])
    weights = {"factor": np.asarray(3 / 1.1, np.float32), "two": np.asarray(2, np.float32)}
    inputs = {"x": np.full((ROWS, WIDTH), 1.1, np.float32)}
    reference = measure(make_model([*nodes, rows], {"y": TensorProto.INT64}, weights), inputs)
    assert reference.rounding["y"].shape == ()
    rows_found = reference.outputs["y"]
    assert len(rows_found)
    assert reference.compare({"y": rows_found[::-1][1:]}, Tolerance()).problem is None
    assert reference.compare({"y": rows_found + 100}, Tolerance()).problem is not None


def test_a_changed_run_may_fail() -> None:
    """A detector's Reshape to `[n, -1]` fails in ONNX Runtime if rounding leaves no rows: every length may change."""
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["product"]),
        helper.make_node("Floor", ["product"], ["whole"]),
        helper.make_node("Sub", ["whole", "two"], ["rest"]),
        helper.make_node("Relu", ["rest"], ["kept"]),
        helper.make_node("NonZero", ["kept"], ["found"]),
        helper.make_node("Transpose", ["found"], ["rows"]),
        helper.make_node("Shape", ["rows"], ["count"], start=0, end=1),
        helper.make_node("Concat", ["count", "open"], ["shape"], axis=0),
        helper.make_node("Reshape", ["rows", "shape"], ["y"]),
    ]
    weights: dict[str, np.ndarray] = {
        "factor": np.asarray(3 / 1.1, np.float32),
        "two": np.asarray(2, np.float32),
        "open": np.array([-1], np.int64),
    }
    inputs = {"x": np.full((ROWS, WIDTH), -0.5, np.float32)}
    inputs["x"][3, 5] = 1.1
    reference = measure(make_model(nodes, {"y": TensorProto.INT64}, weights), inputs)
    np.testing.assert_array_equal(reference.outputs["y"], [[3, 5]])
    assert reference.rounding["y"].shape == ()
    assert np.isinf(reference.rounding["y"])


def make_loads(cause: Exception) -> Callable[[bytes], Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]]:
    """Return a function that loads a model; only the first run of the model succeeds."""

    def load(model: bytes) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
        run, runs = open_onnx(model, "net"), iter([True])

        def fail(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            if next(runs, False):
                return run(inputs)
            raise TvmbuildError("the run failed") from cause

        return fail

    return load


def test_every_changed_run_may_fail() -> None:
    """Outputs of fixed shape are judged as if nothing had failed, and a note says that runs failed, and why."""
    model, inputs = make_detector(make_weights(0)), make_tie(0)
    outputs = open_onnx(model, "net")(inputs)
    nodes = [*onnx.load_model_from_string(model).graph.node, helper.make_node("NonZero", ["best"], ["places"])]
    longer = make_model(nodes, {"best": TensorProto.FLOAT, "places": TensorProto.INT64}, make_weights(0))
    load = make_loads(Fail("Reshape"))
    rounding = measure_rounding(model, inputs, outputs, "fp32", load)
    assert rounding.moved == {}
    assert rounding.notes == ("8 of 8 runs with changes as small as rounding failed: the run failed",)
    rounding = measure_rounding(longer, inputs, open_onnx(longer, "net")(inputs), "fp32", load)
    assert list(rounding.moved) == ["places"]
    assert "so that any length is right for places: the run failed" in rounding.notes[0]


def test_scalars_have_no_length_to_lose() -> None:
    nodes = [helper.make_node("ReduceMax", ["x"], ["y"], keepdims=0)]
    model, inputs = make_model(nodes, {"y": TensorProto.FLOAT}, {}), make_tie(0)
    rounding = measure_rounding(model, inputs, open_onnx(model, "net")(inputs), "fp32", make_loads(Fail("Reshape")))
    assert rounding.moved == {}


def test_other_errors_of_a_changed_run_are_raised() -> None:
    model, inputs = make_detector(make_weights(0)), make_tie(0)
    outputs = open_onnx(model, "net")(inputs)
    with pytest.raises(TvmbuildError, match="the run failed"):
        measure_rounding(model, inputs, outputs, "fp32", make_loads(KeyError("x")))


def test_a_model_in_float16_is_rounded_more() -> None:
    weights = {
        name: value.astype(np.float16) if value.dtype == np.float32 else value
        for name, value in make_weights(2).items()
    }
    model = onnx.load_model_from_string(make_detector(weights))
    for value in (*model.graph.input, *(each for each in model.graph.output if each.name != "rows")):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    data, inputs = model.SerializeToString(), {"x": make_tie(2)["x"].astype(np.float16)}
    assert watch_decisions(data).scores == {"scores": np.float16}
    outputs = open_onnx(data, "net")(inputs)
    rounding = measure_rounding(data, inputs, outputs, "fp16", partial(open_onnx, what="net", optimized=True))
    reference = Reference(inputs, outputs, "fp16", rounding=rounding.moved)
    tie = int(np.argmin(-np.diff(outputs["best"].astype(np.float64))))
    assert reference.compare(swap(outputs, tie, tie + 1), Tolerance()).problem is None
    assert reference.compare(swap(outputs, 0, KEPT - 1), Tolerance()).problem is not None
