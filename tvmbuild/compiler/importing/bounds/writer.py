"""The writer of a graph of fixed shapes: each node is written once, and its results get their types at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.importing.bounds.names import WRITTEN
from tvmbuild.compiler.importing.expand.constants import fold_nodes
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import OWN, refuse

HINT = "bound"
"""The beginning of the names of values."""
_MOST_ELEMENTS = 1 << 27
"""The largest number of elements of a padded value."""
_SHOWN = 4096
"""The largest number of elements of a constant that may decide on a shape."""
_BOUNDS_AS_INPUTS = 10
"""The first opset in which Slice takes its bounds as inputs."""
_MOVING: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("Cast", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Split", "Squeeze"), (0,)),
    **dict.fromkeys(("Expand", "Tile", "Transpose", "Unsqueeze"), (0,)),
    **dict.fromkeys(("Add", "Div", "Max", "Min", "Mul"), (0, 1)),
    "Concat": range(1 << 10),
    "Where": (1, 2),
}
"""Operators → their inputs; if none of them is negative, no result is."""


class Writer:
    """The nodes that were written, and the types of their results."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Begin with the types of the values of ``model``."""
        self.scope = Scope(model)
        self.nodes: Nodes = []
        self.origins: dict[str, str] = {}
        """The value that a node reads, by the names that lengths gave to it."""
        self._natural: set[str] = set()
        self._made: dict[object, Any] = {}

    def value(self, name: str) -> str:
        """Return the name of a value that a node can read."""
        return self.origins.get(name, name)

    def kind(self, name: str) -> int:
        """Return the element type of a value."""
        return self.scope.element_type(name) or TensorProto.FLOAT

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return NumPy's type of a value's elements."""
        found: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(self.kind(name))
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the padded shape of a value. Raises LookupError if it is not known."""
        shape = self.scope.shape(name)
        if shape is None:
            raise LookupError(name)
        return shape

    def constant_of(self, name: str) -> np.ndarray[Any, Any] | None:
        """Return the array of a constant, or None for other values."""
        return self.scope.constant(self.origins.get(name, name))

    def is_natural(self, name: str) -> bool:
        """Return whether all elements of a value are known to be at least 0."""
        array = self.constant_of(name)
        return self.origins.get(name, name) in self._natural or (array is not None and bool((array >= 0).all()))

    def constant(self, array: Any) -> str:
        """Return the name of a constant."""
        array = np.asarray(array)
        key = ("constant", array.tobytes(), array.shape, str(array.dtype))
        if key not in self._made:
            self._made[key] = self.scope.add_constant(array, HINT)
        return str(self._made[key])

    def integers(self, values: Sequence[int]) -> str:
        """Return the name of a constant vector of int64."""
        return self.constant(np.array(list(values), np.int64))

    def number_like(self, name: str, value: float) -> str:
        """Return the name of a constant scalar of a value's type."""
        return self.constant(np.array(value).astype(self.dtype(name)))

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Write a node with one output unless it exists already, and return the output's name."""
        node = helper.make_node(operator, [self.value(each) for each in inputs], [""], **attributes)
        return self.copy(node)[0]

    def copy(self, node: onnx.NodeProto) -> list[str]:
        """Write a node like this one, of inputs with fixed shapes, and return the names of its outputs."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = ""
        copy.input[:] = [self.value(each) for each in node.input]
        copy.output[:] = ["" for _ in node.output]
        key = copy.SerializeToString(deterministic=True)
        if key not in self._made:
            self._made[key] = self._write(copy, node)
        return list(self._made[key])

    def own(
        self, operator: str, inputs: Sequence[str], forms: Sequence[tuple[int, Sequence[int]]], **attributes: Any
    ) -> list[str]:
        """Write a node of an operator of our own, whose outputs have these types and shapes; return their names."""
        key = (operator, tuple(inputs), repr(sorted(attributes.items())))
        if key not in self._made:
            outputs = [self.scope.fresh(HINT) for _ in forms]
            values = [self.value(each) for each in inputs]
            self.nodes.append(helper.make_node(operator, values, outputs, domain=OWN, **attributes))
            for name, (kind, shape) in zip(outputs, forms, strict=True):
                self.scope.set_type(name, kind, shape)
            if operator != WRITTEN:
                self._natural.update(outputs)
            self._made[key] = outputs
        return list(self._made[key])

    def _write(self, node: onnx.NodeProto, said: onnx.NodeProto) -> list[str]:
        node.output[:] = [self.scope.fresh(HINT) for _ in node.output]
        constants = [name for name in node.input if name and self.scope.is_constant(name)]
        if len(constants) == sum(bool(name) for name in node.input) and not fold_nodes([node], self.scope):
            return list(node.output)
        types = self._infer(node, constants)
        if types is None:
            raise refuse(said, "the shape of its result is not known", "export the model with fixed shapes")
        if all(0 in shape for _, shape in types):
            for name, (kind, shape) in zip(node.output, types, strict=True):
                self.scope.set_constant(name, np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind)))
            return list(node.output)
        if max(math.prod(shape) for _, shape in types) > _MOST_ELEMENTS:
            raise refuse(said, "its result may be too large for a memory", "limit how many elements it can find")
        self.nodes.append(node)
        for name, (kind, shape) in zip(node.output, types, strict=True):
            self.scope.set_type(name, kind, shape)
        if node.op_type == "TopK":
            self._natural.add(node.output[1])
        places = _MOVING.get(node.op_type, ())
        if places and all(self.is_natural(node.input[place]) for place in places if place < len(node.input)):
            self._natural.update(node.output)
        return list(node.output)

    def _infer(self, node: onnx.NodeProto, constants: Sequence[str]) -> list[tuple[int, tuple[int, ...]]] | None:
        values, tensors = [], []
        for name in dict.fromkeys(filter(None, node.input)):
            shape = self.scope.shape(name)
            array = self.scope.constant(name) if name in constants else None
            if array is not None and array.size <= _SHOWN:
                tensors.append(numpy_helper.from_array(array, name))
            elif shape is None:
                return None
            else:
                values.append(helper.make_tensor_value_info(name, self.kind(name), shape))
        outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in node.output]
        graph = helper.make_graph([node], "node", values, outputs, tensors)
        model = helper.make_model(graph, opset_imports=self.scope.model.opset_import)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        types = []
        for output in inferred.output:
            tensor = output.type.tensor_type
            dims = tensor.shape.dim
            if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in dims):
                return None
            types.append((int(tensor.elem_type), tuple(int(dim.dim_value) for dim in dims)))
        return types

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """Return the value in another padded shape."""
        return name if self.scope.shape(name) == tuple(shape) else self.emit("Reshape", name, self.integers(shape))

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        """Insert axes of length one into the padded shape."""
        shape = list(self.shape(name))
        for axis in axes:
            shape.insert(axis, 1)
        return self.reshape(name, shape)

    def cut(self, name: str, axis: int, size: int) -> str:
        """Return the first elements of a value along an axis."""
        if self.shape(name)[axis] <= size:
            return name
        return self.slice(name, axis, (0, size, 1))

    def slice(self, name: str, axis: int, span: tuple[int, int, int]) -> str:
        """Return the elements of a value from the first to before the second number, in steps of the third."""
        start, end, step = span
        if self.scope.opset < _BOUNDS_AS_INPUTS:
            return self.emit("Slice", name, axes=[axis], starts=[start], ends=[end])
        return self.emit("Slice", name, *(self.integers([each]) for each in (start, end, axis, step)))

    def grow(self, name: str, axis: int, size: int) -> str:
        """Return the value with zeros after its elements along an axis, up to ``size`` elements."""
        shape = list(self.shape(name))
        more = size - shape[axis]
        if more <= 0:
            return name
        shape[axis] = more
        zeros = self.constant(np.zeros(shape, self.dtype(name)))
        return zeros if 0 in self.shape(name) else self.emit("Concat", name, zeros, axis=axis)

    def reduce(self, operator: str, name: str, axes: Sequence[int], *, keep: bool) -> str:
        """Reduce a value along axes, in the form of the model's opset."""
        last = 13 if operator == "ReduceSum" else 18
        if self.scope.opset >= last:
            return self.emit(operator, name, self.integers(axes), keepdims=int(keep))
        return self.emit(operator, name, axes=list(axes), keepdims=int(keep))
