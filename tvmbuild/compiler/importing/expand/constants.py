"""Constant folding before the import: nodes with constant inputs, and shapes of values."""

from __future__ import annotations

import warnings
from collections.abc import Set as AbstractSet

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of, list_needed, list_read
from tvmbuild.compiler.importing.expand.tensor_sequences import OPERATORS
from tvmbuild.compiler.importing.refusals import ONNX
from tvmbuild.compiler.importing.spellings import find_rank

MAX_ELEMENTS = 1 << 22
"""The largest number of elements of a folded constant; larger constants are computed at run time."""
_UNKNOWN = OPERATORS | frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Operators that cannot be folded, because their results differ each time or are not arrays."""
INTEGERS = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32})
"""The types of integer constants that stay integers for the importer and later passes."""
_OF_SHAPES = frozenset({"Shape", "Size"})
_OF_SMALL_TYPES = 21
"""The first opset whose DequantizeLinear and QuantizeLinear know types of 4 bits; else their definitions are alike."""
_CHANGED = {"Hardmax": 13, "LogSoftmax": 13, "Softmax": 13}
"""The first opset whose definition of an operator onnx's reference evaluator has, by the operator's name."""


def fold_nodes(nodes: Nodes, scope: Scope) -> Nodes:
    """Evaluate nodes with constant inputs, and Shape and Size of known shapes; return the other nodes.

    The results become constants of the model.
    """
    left: Nodes = []
    kept = {value.name for value in scope.model.graph.output}
    for node in nodes:
        arrays = None if kept & set(node.output) else _evaluate(node, scope)
        if arrays is None:
            left.append(node)
            continue
        for name, array in zip(node.output, arrays, strict=True):
            if name:
                scope.set_constant(name, array)
    return left


def drop_unused(graph: onnx.GraphProto) -> None:
    """Remove nodes and constants that nothing reads, in place.

    TVM imports all constants, and fails on constants of types with fewer than 8 bits.
    """
    _drop_unused_nodes(graph)
    used = {name for node in graph.node for name in list_read(node)}
    used |= {value.name for value in (*graph.input, *graph.output)}
    left = [tensor for tensor in graph.initializer if tensor.name in used]
    if len(left) < len(graph.initializer):
        del graph.initializer[:]
        graph.initializer.extend(left)


def _drop_unused_nodes(graph: onnx.GraphProto) -> None:
    left = list_needed(graph.node, (value.name for value in graph.output))
    if len(left) < len(graph.node):
        del graph.node[:]
        graph.node.extend(left)


def can_fold(node: onnx.NodeProto, known: AbstractSet[str]) -> bool:
    """Return whether folding may apply to the node; ``known`` are the names of the constants."""
    return node.op_type in _OF_SHAPES or all(name in known for name in node.input if name)


def keeps_integers(node: onnx.NodeProto, scope: Scope) -> bool:
    """Return whether the node dequantises integers of a type that later passes need as integers."""
    whole = not attributes_of(node).get("block_size", 0)
    return node.op_type == "DequantizeLinear" and whole and scope.element_type(node.input[0]) in INTEGERS


def _evaluate(node: onnx.NodeProto, scope: Scope) -> list[np.ndarray] | None:
    if node.op_type in _OF_SHAPES:
        return _evaluate_shape(node, scope)
    if node.op_type in _UNKNOWN or any(each.type == onnx.AttributeProto.GRAPH for each in node.attribute):
        return None
    if keeps_integers(node, scope) or scope.opset < _CHANGED.get(node.op_type, 0):
        return None
    names = [name for name in node.input if name]
    if not all(scope.is_constant(name) for name in names) or _is_large(node, scope):
        return None
    arrays = _read_inputs(node, scope)
    values = [helper.make_value_info(name, onnx.TypeProto()) for name in arrays]
    outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name]
    graph = helper.make_graph([node], "node", values, outputs)
    model = helper.make_model(graph, opset_imports=scope.model.opset_import)
    if node.op_type in {"DequantizeLinear", "QuantizeLinear"}:
        for entry in model.opset_import:
            entry.version = max(entry.version, _OF_SMALL_TYPES) if entry.domain in ONNX else entry.version
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = iter(ReferenceEvaluator(model).run(None, arrays))
    except Exception:  # noqa: BLE001 - the reference evaluator lacks this node; the importer may have it
        return None
    found = [np.asarray(next(results)) if name else np.empty(0) for name in node.output]
    fits = all(_has_right_type(name, array, scope) for name, array in zip(node.output, found, strict=True))
    fits = fits and not any(array.dtype.kind in "OSU" for array in found)  # strings
    return found if fits and all(array.size <= MAX_ELEMENTS for array in found) else None


def _read_inputs(node: onnx.NodeProto, scope: Scope) -> dict[str, np.ndarray | None]:
    """Return the inputs' arrays by name; an input of one element gets the rank that ONNX defines."""
    arrays = {name: scope.constant(name) for name in node.input if name}
    for place, name in enumerate(node.input):
        rank, array = find_rank(node.op_type, place), arrays.get(name)
        if rank is not None and array is not None and array.size == 1:
            arrays[name] = array.reshape([1] * rank)
    return arrays


def _has_right_type(name: str, array: np.ndarray, scope: Scope) -> bool:
    """Return whether the array has the type that ONNX gives to the value; the reference evaluator widens some types."""
    kind = scope.element_type(name) if name else None
    return kind is None or helper.tensor_dtype_to_np_dtype(kind) == array.dtype


def _is_large(node: onnx.NodeProto, scope: Scope) -> bool:
    shapes = [scope.shape(name) for name in node.output if name]
    return any(shape is not None and np.prod(shape, dtype=np.int64) > MAX_ELEMENTS for shape in shapes)


def _evaluate_shape(node: onnx.NodeProto, scope: Scope) -> list[np.ndarray] | None:
    shape = scope.shape(node.input[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        return [np.array(np.prod(shape, dtype=np.int64))]
    attributes = attributes_of(node)
    return [np.array(shape[attributes.get("start", 0) : attributes.get("end")], dtype=np.int64)]
