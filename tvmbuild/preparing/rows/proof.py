"""The walk through a graph that proves its rows independent, and the comparison of the graphs of several batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from tvmbuild.compiler.importing.expand.expand import expand_what_can_be
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import ONNX
from tvmbuild.preparing.rebatch import infer_shapes, list_reads
from tvmbuild.preparing.rows.axis import Dependent, Node, Rows
from tvmbuild.preparing.rows.moves import list_slices, list_written
from tvmbuild.preparing.rows.table import RULES

_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_SHAPES = {("Reshape", 1), ("Expand", 1), ("Resize", 3), ("Tile", 1)}
"""Inputs that only say the shape of the output, by operator and number: the shapes themselves are compared."""


@dataclass(frozen=True)
class Proven:
    """A graph of a fixed batch whose rows are independent."""

    name: str
    """The name of the size in messages."""
    nodes: tuple[Node, ...]
    outputs: Mapping[str, Rows]
    """The place of the batch in each output."""


def prove_rows(proto: onnx.ModelProto, inputs: Mapping[str, int], rows: int, name: str) -> Proven:
    """Return the places of the batch in a model's outputs, if the model computes each row by itself.

    ``inputs`` has the axis of the batch of each input with one, and ``rows`` its length, at least 2. Raises Dependent
    that names the first node in which rows influence each other, or may do so.
    """
    proto = _expand(proto)
    shapes = infer_shapes(proto)
    constants = {each.name: numpy_helper.to_array(each) for each in proto.graph.initializer}
    opset = max((each.version for each in proto.opset_import if each.domain in {"", "ai.onnx"}), default=1)
    places = {each: Rows(axis) for each, axis in inputs.items()}
    nodes = []
    for each in proto.graph.node:
        if each.op_type == "Constant" and each.attribute[0].name == "value":
            constants[each.output[0]] = numpy_helper.to_array(each.attribute[0].t)
            continue
        node = Node(each, rows, places, shapes, constants, opset)
        try:
            found = _find_places(node)
        except Dependent as reason:
            raise Dependent(f"{describe_node(each)}: {reason}") from None
        places.update(found)
        nodes.append(node)
    for output in proto.graph.output:
        if output.name not in places:
            raise Dependent(f"the output {output.name} does not depend on the batch")
        if not places[output.name].is_whole:
            raise Dependent(f"the output {output.name} has the batch and other elements on one axis")
    return Proven(name, tuple(nodes), {each.name: places[each.name] for each in proto.graph.output})


def _expand(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with operators that have no rule expanded into ONNX operators, as far as the importer can.

    These are attention, the operators of com.microsoft, and branches and loops whose conditions are constant. What the
    importer cannot express stays, and has no rule.
    """
    return expand_what_can_be(proto, dict.fromkeys(RULES, _keep))[0]


def _keep(node: onnx.NodeProto, _scope: Scope) -> Nodes | None:
    return [node] if node.domain in ONNX else None


def describe_node(node: onnx.NodeProto) -> str:
    """Return the operator and the name of a node."""
    return f"{node.op_type} {node.name or f'that makes {node.output[0]}'}"


def _find_places(node: Node) -> dict[str, Rows]:
    proto = node.proto
    if proto.op_type in _RANDOM:
        raise Dependent("its numbers are random")
    if not any(name in node.places for name in list_reads(proto)):
        return {}
    rule = RULES.get(proto.op_type) if proto.domain in ONNX else None
    if rule is None:
        raise Dependent("no rule shows that it computes each row alone")
    found = rule(node)
    placed = [found] * len(proto.output) if isinstance(found, Rows) else found
    return {name: place for name, place in zip(proto.output, placed, strict=False) if name and place is not None}


def compare_batches(first: Proven, second: Proven) -> None:
    """Raise Dependent unless both graphs compute the same of each row, although their batches differ in length."""
    if len(first.nodes) != len(second.nodes):
        raise Dependent(
            f"the network has {len(first.nodes)} operators at {first.name} and {len(second.nodes)} at {second.name}"
        )
    names: dict[str, str] = {}
    try:
        for one, other in zip(first.nodes, second.nodes, strict=True):
            _compare_nodes(one, other, names)
    except Dependent as reason:
        raise Dependent(f"{describe_node(one.proto)}: {reason} at {first.name} and {second.name}") from None
    if first.outputs != second.outputs:
        raise Dependent(f"the outputs have the batch on other axes at {first.name} and {second.name}")


def _compare_nodes(one: Node, other: Node, names: dict[str, str]) -> None:
    """Compare two nodes of the same position, and add the names of their outputs."""
    if (one.proto.op_type, one.proto.domain) != (other.proto.op_type, other.proto.domain):
        raise Dependent(f"it is {other.proto.op_type} elsewhere: the operators differ")
    if _freeze(one.proto) != _freeze(other.proto):
        raise Dependent("its attributes differ")
    if len(one.inputs) != len(other.inputs) or len(one.proto.output) != len(other.proto.output):
        raise Dependent("its inputs differ")
    for index, (mine, theirs) in enumerate(zip(one.inputs, other.inputs, strict=True)):
        if mine in one.constants and theirs in other.constants:
            _compare_constants(one, other, index)
        elif names.get(mine, mine) != theirs:
            raise Dependent("its inputs differ")
        elif one.place(index) != other.place(index):
            raise Dependent("its inputs have the batch on other axes")
    for mine, theirs in zip(one.proto.output, other.proto.output, strict=True):
        names[mine] = theirs
        _compare_shapes(one, other, mine, theirs)


def _freeze(node: onnx.NodeProto) -> list[bytes]:
    return sorted(each.SerializeToString(deterministic=True) for each in node.attribute)


def _compare_shapes(one: Node, other: Node, mine: str, theirs: str) -> None:
    if mine not in one.shapes or theirs not in other.shapes:
        if mine in one.places:
            raise Dependent("the shape of an output is not known")
        return
    shape, wanted = list(one.shapes[mine]), list(other.shapes[theirs])
    place = one.places.get(mine)
    if place != other.places.get(theirs):
        raise Dependent("its outputs have the batch on other axes")
    if place is not None and len(shape) == len(wanted):
        shape[place.axis] = wanted[place.axis] = 0  # both are outer * rows * inner
    if shape != wanted:
        raise Dependent("its outputs have other shapes")


def _compare_constants(one: Node, other: Node, index: int) -> None:
    """Compare an input that is constant: equal, or with equal values for every row."""
    mine, theirs = one.constants[one.inputs[index]], other.constants[other.inputs[index]]
    is_alike = mine.shape == theirs.shape and mine.dtype == theirs.dtype
    if is_alike and np.array_equal(mine, theirs, equal_nan=mine.dtype.kind in "fc"):
        return
    if (one.proto.op_type, index) in _SHAPES:
        return
    if one.proto.op_type == "Slice" and _list_other_slices(one) == _list_other_slices(other):
        return
    if (one.proto.op_type, index) == ("ScatterND", 1) and _write_the_same(one, other):
        return
    depends = any(name in one.places for name in one.inputs)
    if not (depends and mine.dtype == theirs.dtype and _is_same_row(mine, theirs)):
        raise Dependent(f"its constant {one.inputs[index]} has other values")


def _list_other_slices(node: Node) -> list[tuple[int, int, int, int]]:
    place = node.place(0)
    return [each for each in list_slices(node) if place is None or each[0] != place.axis]


def _write_the_same(one: Node, other: Node) -> bool:
    """Return whether the indices of two ScatterND write at the same places of each row."""
    mine, theirs = list_written(one), list_written(other)
    return mine is not None and theirs is not None and np.array_equal(mine, theirs)


def _is_same_row(mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Return whether arrays that differ in the length of one axis have one value along it, the same in both."""
    if mine.ndim != theirs.ndim:
        return False
    axes = [axis for axis in range(mine.ndim) if mine.shape[axis] != theirs.shape[axis]]
    if len(axes) != 1 or 0 in (*mine.shape, *theirs.shape):
        return False
    row = mine.take([0], axes[0])
    return bool((mine == row).all() and (theirs == row).all())


def compare_all(proven: Sequence[Proven]) -> None:
    """Compare the graph of each batch with that of the first one."""
    for each in proven[1:]:
        compare_batches(proven[0], each)
