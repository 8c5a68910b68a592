"""Values that depend only on shapes are known before the import, however they are computed; the others are reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
from counted_graphs import check as check_counted
from onnx import TensorProto, helper, numpy_helper
from quantized_nodes import run_onnx

from tvmbuild.compiler.importing.expand.expand import expand_operators
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError

X = np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 6)


class Graph:
    """A graph under construction: nodes on x, and constants."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> str:
        """Add a node; inputs that are not names are constants."""
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        made = [f"v{len(self.nodes)}.{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(operator, names, made, f"{operator}_{len(self.nodes)}", **attributes))
        return made[-1]

    def _constant(self, values: Any) -> str:
        array = np.asarray(values)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def rows(self) -> str:
        """Add nodes that give the number of rows as a vector."""
        return self.add("Slice", self.add("Shape", "x"), np.array([0]), np.array([1]))

    def model(self, output: str) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
        y = helper.make_empty_tensor_value_info(output)
        weights = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "net", [x], [y], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


Compute: TypeAlias = Callable[[Graph, str], str]
NUMBERS: dict[str, Compute] = {
    "ReduceMin": lambda g, n: g.add("ReduceMin", g.add("Concat", n, np.array([4]), axis=0), axes=[0], keepdims=1),
    "ReduceMax": lambda g, n: g.add("ReduceMax", g.add("Sub", n, np.array([2])), keepdims=1),
    "ReduceProd": lambda g, n: g.add("ReduceProd", n, keepdims=1),
    "ReduceSum": lambda g, n: g.add("ReduceSum", n, np.array([0]), keepdims=1),
    "Min": lambda g, n: g.add("Min", n, np.array([3])),
    "Max": lambda g, n: g.add("Max", n, np.array([3])),
    "Where": lambda g, n: g.add("Where", g.add("Greater", n, np.array([4])), np.array([4]), n),
    "Mod": lambda g, n: g.add("Mod", n, np.array([3])),
    "Div": lambda g, n: g.add("Div", n, np.array([2])),
    "floor": lambda g, n: g.add(
        "Cast", g.add("Floor", g.add("Mul", g.add("Cast", n, to=1), np.array([0.7], np.float32))), to=TensorProto.INT64
    ),
    "ceil": lambda g, n: g.add(
        "Cast", g.add("Ceil", g.add("Div", g.add("Cast", n, to=11), np.array([2.0]))), to=TensorProto.INT64
    ),
    "Sqrt": lambda g, n: g.add("Cast", g.add("Sqrt", g.add("Cast", n, to=1)), to=TensorProto.INT64),
    "Clip": lambda g, n: g.add("Clip", n, np.array(1), np.array(3)),
    "Abs": lambda g, n: g.add("Abs", g.add("Neg", g.add("Sub", n, np.array([1])))),
    "And": lambda g, n: g.add(
        "Cast", g.add("And", g.add("Equal", n, np.array([5])), np.array([True])), to=TensorProto.INT64
    ),
    "Gather": lambda g, n: g.add("Gather", g.add("Mul", g.add("Range", 0, g.add("Squeeze", n), 1), 2), np.array([1])),
    "ArgMax": lambda g, n: g.add("ArgMax", g.add("Concat", n, np.array([9]), axis=0), axis=0, keepdims=1),
    "CumSum": lambda g, n: g.add("CumSum", n, np.array(0)),
    "TopK": lambda g, n: g.add("Add", g.add("TopK", n, np.array([1]), outputs=2), np.array([2])),
    "NonZero": lambda g, n: g.add("Shape", g.add("NonZero", g.add("ConstantOfShape", n, value=one())), start=1),
    "Size": lambda g, n: g.add("Unsqueeze", g.add("Size", g.add("ConstantOfShape", n)), np.array([0])),
    "OneHot": lambda g, n: g.add(
        "ReduceSum", g.add("OneHot", n, np.array([7]), np.array([0, 1])), np.array([1]), keepdims=0
    ),
    "ScatterND": lambda g, n: g.add("ScatterND", n, np.array([[0]]), np.array([3])),
    "If": lambda g, n: g.add(
        "If", g.add("Greater", g.add("Squeeze", n), np.array(2)), then_branch=branch("t", 3), else_branch=branch("e", 1)
    ),
    "Loop": lambda g, n: g.add("Loop", g.add("Squeeze", n), np.array(True), np.array([0]), body=counting()),
}


def one() -> onnx.TensorProto:
    return helper.make_tensor("one", TensorProto.INT64, [1], [1])


def branch(name: str, value: int) -> onnx.GraphProto:
    node = helper.make_node("Constant", [], [name], value_ints=[value])
    return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, TensorProto.INT64, [1])])


def counting() -> onnx.GraphProto:
    """Return a loop's body that adds one each time."""
    nodes = [
        helper.make_node("Constant", [], ["one"], value_ints=[1]),
        helper.make_node("Add", ["n", "one"], ["more"]),
        helper.make_node("Identity", ["on"], ["still"]),
    ]
    inputs = [("i", TensorProto.INT64, []), ("on", TensorProto.BOOL, []), ("n", TensorProto.INT64, [1])]
    outputs = [("still", TensorProto.BOOL, []), ("more", TensorProto.INT64, [1])]
    return helper.make_graph(
        nodes,
        "body",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
    )


USES: dict[str, Compute] = {
    "TopK": lambda g, n: g.add("TopK", "x", n, outputs=2, axis=0),
    "Slice": lambda g, n: g.add("Slice", "x", np.array([0]), n, np.array([0])),
    "Range": lambda g, n: g.add("Neg", g.add("Range", 0, g.add("Squeeze", n), 1)),
    "Expand": lambda g, n: g.add("Expand", "x", g.add("Concat", n, np.array([5, 6]), axis=0)),
    "ConstantOfShape": lambda g, n: g.add("Neg", g.add("ConstantOfShape", g.add("Concat", n, np.array([2]), axis=0))),
    "Tile": lambda g, n: g.add("Tile", "x", g.add("Concat", n, np.array([1]), axis=0)),
    "Pad": lambda g, n: g.add("Pad", "x", g.add("Concat", n, n, n, np.array([0]), axis=0)),
    "Split": lambda g, n: g.add("Split", "x", g.add("Concat", n, g.add("Sub", np.array([5]), n), axis=0), outputs=2),
    "OneHot": lambda g, n: g.add("OneHot", g.add("Cast", "x", to=TensorProto.INT64), n, np.array([0, 1], np.float32)),
    "Trilu": lambda g, n: g.add("Trilu", "x", g.add("Squeeze", n)),
    "CumSum": lambda g, n: g.add("CumSum", "x", g.add("Sub", n, n)),
    "Resize": lambda g, n: g.add("Resize", "x", "", "", g.add("Concat", n, np.array([3]), axis=0), mode="nearest"),
    "Gather": lambda g, n: g.add("Gather", "x", g.add("Sub", n, np.array([1])), axis=1),
    "Mul": lambda g, n: g.add("Mul", "x", g.add("Cast", n, to=TensorProto.FLOAT)),
}


def check(graph: Graph, output: str) -> None:
    """Assert that no operators on shapes are left, and that the values and their shape are ONNX Runtime's."""
    model = graph.model(output)
    expanded = expand_operators(model)
    assert not {"Shape", "Size", "ConstantOfShape", "Range", "If", "Loop"} & {
        each.op_type for each in expanded.graph.node
    }
    (want,) = run_onnx(model, {"x": X})
    np.testing.assert_array_equal(run_onnx(expanded, {"x": X})[0], want)
    assert import_model(model, "net").outputs[0].shape == want.shape


@pytest.mark.parametrize("number", NUMBERS)
def test_ways_to_compute_a_number(number: str) -> None:
    graph = Graph()
    check(graph, USES["Slice"](graph, NUMBERS[number](graph, graph.rows())))


@pytest.mark.parametrize("use", USES)
def test_uses_of_a_number(use: str) -> None:
    graph = Graph()
    check(graph, USES[use](graph, NUMBERS["ReduceMin"](graph, graph.rows())))


@pytest.mark.parametrize("use", USES)
def test_the_shape_of_what_such_a_number_made(use: str) -> None:
    """The shapes of results become known one after another."""
    graph = Graph()
    first = USES[use](graph, NUMBERS["Where"](graph, graph.rows()))
    size = graph.add("Slice", graph.add("Shape", first), np.array([0]), np.array([1]))
    check(graph, USES["Slice"](graph, NUMBERS["Min"](graph, size)))


FINDERS: dict[str, Callable[[Graph], str]] = {
    "NonZero": lambda g: g.add("NonZero", g.add("Greater", "x", np.float32(0))),
    "Compress": lambda g: g.add(
        "Compress", "x", g.add("Greater", g.add("ReduceSum", "x", np.array([1]), keepdims=0), np.float32(0)), axis=0
    ),
    "Unique": lambda g: g.add("Unique", "x"),
    "NonMaxSuppression": lambda g: g.add(
        "NonMaxSuppression",
        g.add("Reshape", g.add("Slice", "x", [0], [4], [1]), [1, 5, 4]),
        g.add("Reshape", g.add("Slice", "x", [0], [1], [1]), [1, 1, 5]),
    ),
}
BEHIND: dict[str, Compute] = {
    "ReduceMin": lambda g, found: g.add(
        "Cast", g.add("ReduceMin", g.add("Shape", found), keepdims=0), to=TensorProto.FLOAT
    ),
    "Transpose": lambda g, found: g.add("Relu", g.add("Cast", g.add("Transpose", found), to=TensorProto.FLOAT)),
    "Size": lambda g, found: g.add("Cast", g.add("Size", found), to=TensorProto.FLOAT),
}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("finder", FINDERS)
def test_what_depends_on_data_is_followed(finder: str, behind: str) -> None:
    graph = Graph()
    model = graph.model(BEHIND[behind](graph, FINDERS[finder](graph)))
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    random = np.random.RandomState(3)
    check_counted(model, [{"x": random.uniform(-1, high, shape).astype(np.float32)} for high in (1, -0.5)])


@pytest.mark.parametrize("finder", FINDERS)
def test_what_cannot_be_followed_is_told_where_it_is(finder: str) -> None:
    graph = Graph()
    found = graph.add("Cast", FINDERS[finder](graph), to=TensorProto.FLOAT)
    last = graph.add("Hardmax", graph.add("Neg", found), axis=int(finder == "NonZero"))
    with pytest.raises(TvmbuildError) as caught:
        import_model(graph.model(last), "net")
    read = graph.nodes[-1].input[0]
    assert caught.value.message == (
        f"net: the operator Hardmax (node '{graph.nodes[-1].name}') cannot be built: it reads across "
        f"an axis of {read!r} whose length depends on data, and a package has fixed shapes"
    )
    assert "end the model before it" in (caught.value.hint or "")
