"""One model at several batches: the library chooses other constants for each, and all batches must have the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.quantise import FloatModel, Guard, quantise
from tvmbuild.preparing.quantised_constants import take_constants
from tvmbuild.preparing.quantisers.table import QUANTISERS
from tvmbuild.preparing.reference import make_references, run_onnx
from tvmbuild.preparing.rows.axis import Dependent
from tvmbuild.preparing.rows.proof import compare_batches, prove_rows

CALIBRATION = Calibration("inputs", ("samples.npz",))


def make_convolutions(batch: int) -> onnx.ModelProto:
    """Return two convolutions and a product behind a Reshape whose shape has the batch."""
    random = np.random.RandomState(0)
    weights = {
        "w1": random.normal(0, 0.3, (8, 3, 3, 3)),
        "b1": random.normal(0, 1, 8),
        "w2": random.normal(0, 0.2, (4, 8, 3, 3)),
        "b2": random.normal(0, 1, 4),
        "w3": random.normal(0, 0.2, (64, 5)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "w2", "b2"], ["c"], "second"),
        helper.make_node("Reshape", ["c", "rows"], ["f"], "rows"),
        helper.make_node("MatMul", ["f", "w3"], ["y"], "last"),
    ]
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    constants.append(numpy_helper.from_array(np.array([batch, 64]), "rows"))
    return _make(nodes, constants, (batch, 3, 8, 8), (batch, 5))


def make_attention(batch: int) -> onnx.ModelProto:
    """Return an attention of one head, whose activations SmoothQuant multiplies."""
    random = np.random.RandomState(0)
    constants = [
        numpy_helper.from_array(random.normal(0, 0.3, (16, 16)).astype(np.float32), name)
        for name in ("q", "k", "v", "o")
    ]
    nodes = [
        helper.make_node("Tanh", ["x"], ["n"], "tanh"),
        *(helper.make_node("MatMul", ["n", part], [f"{part}n"], part) for part in "qkv"),
        helper.make_node("Transpose", ["kn"], ["kt"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["qn", "kt"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "weights"),
        helper.make_node("MatMul", ["p", "vn"], ["h"], "heads"),
        helper.make_node("MatMul", ["h", "o"], ["y"], "out"),
    ]
    return _make(nodes, constants, (batch, 6, 16), (batch, 6, 16))


def _make(
    nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], given: tuple[int, ...], made: tuple[int, ...]
) -> onnx.ModelProto:
    tensors = [helper.make_tensor_value_info(*each) for each in (("x", TensorProto.FLOAT, given), ("y", 1, made))]
    graph = helper.make_graph(nodes, "net", tensors[:1], tensors[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _quantise(
    make: Callable[[int], onnx.ModelProto], batch: int, method: str, like: onnx.ModelProto | None = None
) -> onnx.ModelProto:
    model = make(batch)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    # the samples of the smaller batch are the first rows of the larger one's
    drawn = [np.random.RandomState(seed).normal(0, 1, (4, *shape[1:])).astype(np.float32) for seed in range(4)]
    samples = [{"x": each[:batch]} for each in drawn]
    data = model.SerializeToString()
    reference = make_references(data, samples[:1], "fp32", "net")[0]
    guard = Guard(like=like, is_of_largest=like is None)
    made = quantise(FloatModel(data, reference, f"net at {batch}"), Quantize(CALIBRATION, method), samples, guard)  # type: ignore[arg-type]
    return onnx.load_from_string(made.model)


def _compare(first: onnx.ModelProto, second: onnx.ModelProto) -> None:
    compare_batches(prove_rows(first, {"x": 0}, 4, "4"), prove_rows(second, {"x": 0}, 2, "2"))


@pytest.mark.parametrize("make", [make_convolutions, make_attention])
@pytest.mark.parametrize("method", QUANTISERS)
def test_a_smaller_batch_takes_the_constants_of_the_largest(
    method: str, make: Callable[[int], onnx.ModelProto]
) -> None:
    if method == "nncf":
        pytest.importorskip("nncf")
    largest, alone = _quantise(make, 4, method), _quantise(make, 2, method)
    taken = _quantise(make, 2, method, like=largest)
    with pytest.raises(Dependent, match="has other values"):
        _compare(largest, alone)
    _compare(largest, taken)
    whole = np.random.RandomState(9).normal(0, 1, _find_shape(largest)).astype(np.float32)
    want = run_onnx(largest.SerializeToString(), {"x": whole}, "the whole")["y"]
    for model, differs in ((taken, False), (alone, True)):
        got = np.concatenate(
            [run_onnx(model.SerializeToString(), {"x": part}, "a part")["y"] for part in (whole[:2], whole[2:])]
        )
        assert (np.abs(got - want).max() > 1e-4) == differs


def test_a_zero_point_of_another_name_is_taken() -> None:
    """NNCF's zero points are uint8 or int8 by the samples, and quantise() makes uint8 ones of other names of int8."""
    largest, taken = _quantise(make_convolutions, 4, "onnxruntime"), _quantise(make_convolutions, 2, "onnxruntime")
    zero = next(node.input[2] for node in largest.graph.node if node.op_type == "QuantizeLinear")
    for tensor in largest.graph.initializer:
        tensor.name = f"{zero}_uint8" if tensor.name == zero else tensor.name
    for node in largest.graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = f"{zero}_uint8" if name == zero else name
    take_constants(taken, largest, "net at 2")
    _compare(largest, taken)


def _find_shape(model: onnx.ModelProto) -> tuple[int, ...]:
    """Return the shape of the input."""
    return tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)


def test_a_batch_with_other_quantised_operators_is_refused() -> None:
    largest = _quantise(make_convolutions, 4, "onnxruntime")
    other = onnx.ModelProto.FromString(largest.SerializeToString())
    scale = next(node.input[1] for node in other.graph.node if node.op_type == "QuantizeLinear")
    kept = [each for each in largest.graph.initializer if each.name != scale]
    del largest.graph.initializer[:]
    largest.graph.initializer.extend(kept)
    with pytest.raises(TvmbuildError, match=f"net at 2 cannot be a part of a range: .* {scale} is not there"):
        take_constants(other, largest, "net at 2")
