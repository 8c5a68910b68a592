"""Files as exporters leave them: nodes in any order, sparse weights, constants in every form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.importing.reading import tidy
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.onnx_graph import load_model


def make_model(
    nodes: list[onnx.NodeProto], sparse: list[onnx.SparseTensorProto] | None = None, opset: int = 17
) -> onnx.ModelProto:
    """Return a model that computes y from two floats x."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "net", [x], [y], sparse_initializer=sparse)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model: onnx.ModelProto, names: list[str]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(names, {"x": np.array([2, 3], np.float32)})]


def branch(name: str, nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])])


def in_order() -> list[onnx.NodeProto]:
    """Return nodes that read each other's results, one of them only in a subgraph."""
    then = branch("then", [helper.make_node("Add", ["b", "c"], ["t0"]), helper.make_node("Neg", ["t0"], ["then"])])
    other = branch("other", [helper.make_node("Identity", ["c"], ["other"])])
    return [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Exp", ["a"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["c"]),
        helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True))),
        helper.make_node("If", ["yes"], ["d"], then_branch=then, else_branch=other),
        helper.make_node("Sub", ["d", "x"], ["y"]),
    ]


def names_of(nodes: list[onnx.NodeProto]) -> list[str]:
    return [name for node in nodes for name in node.output]


@settings(deadline=None)
@given(order=st.permutations(range(6)), turned=st.booleans())
def test_nodes_in_any_order(order: list[int], *, turned: bool) -> None:
    nodes = [in_order()[index] for index in order]
    for node in nodes:
        for attribute in node.attribute:
            if turned and attribute.name == "then_branch":
                inner = [*attribute.g.node][::-1]
                del attribute.g.node[:]
                attribute.g.node.extend(inner)
    model = make_model(nodes)
    tidy(model)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]))
    onnx.checker.check_model(model)
    np.testing.assert_array_equal(run(model, ["y"])[0], run(make_model(in_order()), ["y"])[0])


def test_what_is_in_order_stays() -> None:
    model = make_model(in_order())
    tidy(model)
    assert names_of([*model.graph.node]) == names_of(in_order())


def test_what_need_not_move_keeps_its_order() -> None:
    nodes = in_order()
    model = make_model([nodes[1], nodes[0], *nodes[2:]])
    tidy(model)
    assert names_of([*model.graph.node]) == names_of(in_order())


@pytest.mark.parametrize("deep", [False, True])
def test_a_cycle_is_told_with_its_nodes(tmp_path: Path, *, deep: bool) -> None:
    nodes = [helper.make_node("Add", ["x", "c"], ["a"], "first"), helper.make_node("Neg", ["a"], ["c"])]
    if deep:
        inner = branch("then", [*nodes, helper.make_node("Neg", ["a"], ["then"])])
        other = branch("other", [helper.make_node("Identity", ["x"], ["other"])])
        yes = helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
        nodes = [yes, helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=other)]
    path = tmp_path / "net.onnx"
    onnx.save(make_model(nodes), str(path))
    with pytest.raises(TvmbuildError, match=r"^net: its nodes wait for each other in a circle: ") as caught:
        load_model(path, "net")
    assert "Add (first)" in caught.value.message
    assert "Neg (c)" in caught.value.message


def sparse(name: str, dense: np.ndarray, *, linear: bool) -> onnx.SparseTensorProto:
    places = np.flatnonzero(dense) if linear else np.argwhere(dense)
    values = numpy_helper.from_array(dense[dense != 0], name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places.astype(np.int64)), list(dense.shape))


@settings(deadline=None)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 99),
    linear=st.booleans(),
    kind=st.sampled_from(["float32", "float16", "int64", "uint8"]),
)
def test_sparse_weights_are_dense(shape: list[int], seed: int, *, linear: bool, kind: str) -> None:
    dense = (np.random.default_rng(seed).integers(-1, 2, shape) * 5).clip(0).astype(kind)
    weights = sparse("w", dense, linear=linear)
    constant = helper.make_node("Constant", [], ["c"], sparse_value=sparse("", dense, linear=linear))
    model = make_model([constant, helper.make_node("Identity", ["w"], ["y"])], [weights])
    tidy(model)
    assert not model.graph.sparse_initializer
    np.testing.assert_array_equal(numpy_helper.to_array(model.graph.initializer[0]), dense)
    assert model.graph.initializer[0].name == "w"
    np.testing.assert_array_equal(numpy_helper.to_array(model.graph.node[0].attribute[0].t), dense)


def test_sparse_weights_in_other_files(tmp_path: Path) -> None:
    dense = np.array([[0, 1.5], [2.5, 0]], np.float32)
    weights = sparse("w", dense, linear=False)
    (tmp_path / "values.bin").write_bytes(weights.values.raw_data)
    onnx.external_data_helper.set_external_data(weights.values, "values.bin")
    weights.values.ClearField("raw_data")
    path = tmp_path / "net.onnx"
    path.write_bytes(make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [weights]).SerializeToString())
    (read,) = load_model(path, "net").graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(read), dense)


def test_indices_outside_are_told() -> None:
    weights = sparse("w", np.eye(3, dtype=np.float32), linear=True)
    del weights.dims[:]
    weights.dims.extend([2, 2])
    with pytest.raises(TvmbuildError, match="the sparse tensor 'w' has 3 values"):
        tidy(make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [weights]))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"value_float": 2.5}, np.float32(2.5)),
        ({"value_floats": [2.5, 1.0]}, np.array([2.5, 1.0], np.float32)),
        ({"value_int": 7}, np.int64(7)),
        ({"value_ints": [7]}, np.array([7], np.int64)),
    ],
)
def test_constants_are_tensors(given: dict[str, object], want: np.ndarray) -> None:
    nodes = [helper.make_node("Constant", [], ["c"], **given), helper.make_node("Identity", ["x"], ["y"])]
    model = make_model(nodes)
    model.graph.output.append(helper.make_empty_tensor_value_info("c"))
    before = run(model, ["c"])[0]
    tidy(model)
    (attribute,) = model.graph.node[0].attribute
    got = numpy_helper.to_array(attribute.t)
    assert (attribute.name, got.dtype, got.shape) == ("value", want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(run(model, ["c"])[0], before)


def test_dictionaries_of_scores_are_the_scores() -> None:
    zipped = helper.make_node("ZipMap", ["r"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    model = make_model([helper.make_node("Reshape", ["x", "s"], ["r"]), zipped])
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2]), "s"))
    tidy(model)
    np.testing.assert_array_equal(run(model, ["y"])[0], [[2, 3]])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_reduction_with_an_empty_list_of_axes_is_of_all_axes(keepdims: int) -> None:
    node = helper.make_node("ReduceMax", ["x"], ["y"], keepdims=keepdims)
    node.attribute.append(onnx.AttributeProto(name="axes", type=onnx.AttributeProto.INTS))
    model = make_model([node], opset=13)
    want = run(model, ["y"])
    tidy(model)
    assert [each.name for each in model.graph.node[0].attribute] == ["keepdims"]
    np.testing.assert_array_equal(run(model, ["y"])[0], want[0])
