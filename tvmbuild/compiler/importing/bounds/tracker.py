"""The values of a graph whose lengths depend on data: padded shapes, real lengths, and nodes of fixed shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.compiler.importing.bounds.lengths import Length, Number, name_value
from tvmbuild.compiler.importing.bounds.names import WRITTEN
from tvmbuild.compiler.importing.expand.constants import fold_nodes
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import OWN, NodeError, refuse

MOST_NUMBERS = 64
"""The largest number of elements of a tensor whose elements are followed one by one."""
MOST_ELEMENTS = 1 << 27
"""The largest number of elements of a padded value."""
_SHOWN = 4096
"""The largest number of elements of a constant that may decide on a shape."""
_HINT = "bound"
_AXES_AS_INPUT = 13
_OPERATORS: Mapping[str, str] = {
    "add": "Add",
    "multiply": "Mul",
    "divide": "Div",
    "least": "Min",
    "most": "Max",
}
_MOVING: Mapping[str, Sequence[int]] = {
    **dict.fromkeys(("Cast", "Gather", "GatherND", "Identity", "Reshape", "Slice", "Split", "Squeeze"), (0,)),
    **dict.fromkeys(("Expand", "Tile", "Transpose", "Unsqueeze"), (0,)),
    **dict.fromkeys(("Add", "Div", "Max", "Min", "Mul"), (0, 1)),
    "Concat": range(1 << 10),
    "Where": (1, 2),
}
"""Operators → their inputs; if none of them is negative, no result is."""
Numbers: TypeAlias = "np.ndarray[Any, Any]"
"""An array of `Number`, the elements of a small tensor."""


class Tracker:
    """The graph that is written, and what is known of its values."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Begin with the types of the values of ``model``."""
        self.scope = Scope(model)
        self.nodes: Nodes = []
        self.names: dict[str, str] = {}
        """The name here of each value of the old graph that was written anew."""
        self.refused: dict[str, NodeError] = {}
        self.walk: Callable[[onnx.NodeProto], None]
        """The function that takes a node of the old graph over; the driver sets it."""
        self._lengths: dict[str, dict[int, Number]] = {}
        self._numbers: dict[str, Numbers] = {}
        self._origins: dict[str, str] = {}
        """The value that a node reads, by the names that other lengths gave to it."""
        self._natural: set[str] = set()
        self._made: dict[object, Any] = {}

    def kind(self, name: str) -> int:
        """Return the element type of a value."""
        return self.scope.element_type(name) or TensorProto.FLOAT

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return NumPy's type of a value's elements."""
        return helper.tensor_dtype_to_np_dtype(self.kind(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the padded shape of a value. Raises LookupError if it is not known."""
        shape = self.scope.shape(name)
        if shape is None:
            raise LookupError(name)
        return shape

    def lengths(self, name: str) -> dict[int, Number]:
        """Return the lengths of the axes that are padded, by axis."""
        return dict(self._lengths.get(name, {}))

    def is_counted(self, name: str) -> bool:
        """Return whether an axis of the value is padded."""
        return name in self._lengths

    def true_shape(self, name: str) -> list[Number]:
        """Return the real shape of a value."""
        lengths = self._lengths.get(name, {})
        return [lengths.get(axis, size) for axis, size in enumerate(self.shape(name))]

    def give(self, name: str, lengths: Mapping[int, Number]) -> str:
        """Return a name of the value with these lengths of its padded axes."""
        shape = self.shape(name)
        wanted = {axis: length for axis, length in lengths.items() if length != shape[axis]}
        found = self._lengths.get(name)
        if found == wanted or (found is None and not wanted):
            return name
        key = ("alias", self.value(name), tuple(sorted(wanted.items())))
        if key not in self._made:
            alias = self._made[key] = self.scope.fresh(_HINT)
            self._origins[alias] = self.value(name)
            self.scope.set_type(alias, self.kind(name), shape)
            if wanted:
                self._lengths[alias] = wanted
        return str(self._made[key])

    def constant_of(self, name: str) -> np.ndarray[Any, Any] | None:
        """Return the array of a constant, or None for other values."""
        return self.scope.constant(self._origins.get(name, name))

    def is_natural(self, name: str) -> bool:
        """Return whether no element of a value is negative, as far as is known."""
        array = self.constant_of(name)
        return self._origins.get(name, name) in self._natural or (array is not None and bool((array >= 0).all()))

    # Small tensors of whole numbers, whose elements are followed one by one.

    def numbers(self, name: str) -> Numbers | None:
        """Return the elements of a small tensor of whole numbers, or None if they are not followed."""
        if name in self._numbers:
            return self._numbers[name]
        array = None if self.is_counted(name) else self.constant_of(name)
        if array is None or array.dtype.kind not in "iub" or array.size > MOST_NUMBERS:
            return None
        return array.astype(object) if array.dtype.kind != "b" else array.astype(np.int64).astype(object)

    def elements(self, name: str) -> Numbers:
        """Return the elements of a small tensor of whole numbers; those that are not followed are any numbers."""
        found = self.numbers(name)
        if found is not None:
            return found
        shape = self.shape(name)
        count = int(np.prod(shape, dtype=np.int64))
        if count > MOST_NUMBERS or self.is_counted(name):
            raise LookupError(name)
        flat = self.emit("Reshape", self.emit("Cast", name, to=TensorProto.INT64), self.integers([count]))
        parts = [self.emit("Gather", flat, self.constant(np.array(place)), axis=0) for place in range(count)]
        elements = np.empty(count, dtype=object)
        elements[:] = [name_value(part) for part in parts]
        return elements.reshape(shape)

    def set_numbers(self, numbers: Numbers, kind: int) -> str:
        """Return the name of a small tensor with these elements, which is written only if a node reads it."""
        if not any(isinstance(each, Length) for each in numbers.flat):
            return self.constant(numbers.astype(helper.tensor_dtype_to_np_dtype(kind)))
        key = ("numbers", tuple(numbers.flat), numbers.shape, kind)
        if key not in self._made:
            name = self.scope.fresh(_HINT)
            self.scope.set_type(name, kind, numbers.shape)
            self._numbers[name] = numbers
            self._made[key] = name
        return str(self._made[key])

    def value(self, name: str) -> str:
        """Return the name of a value that a node can read; a tensor of numbers is written now."""
        numbers = self._numbers.get(name)
        if numbers is None:
            return self._origins.get(name, name)
        parts = [self.emit("Reshape", self.scalar(each), self.integers([1])) for each in numbers.flat]
        joined = parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)
        shaped = joined if numbers.shape == (len(parts),) else self.emit("Reshape", joined, self.integers(numbers.shape))
        kind = self.kind(name)
        return shaped if kind == TensorProto.INT64 else self.emit("Cast", shaped, to=kind)

    def scalar(self, number: Number) -> str:
        """Return the name of an int64 scalar with this number."""
        if isinstance(number, int):
            return self.constant(np.array(number, np.int64))
        if number.operator == "value":
            return number.name
        if number in self._made:
            return str(self._made[number])
        first, *others = (self.scalar(each) for each in number.arguments)
        if number.operator in _OPERATORS:
            for other in others:
                first = self.emit(_OPERATORS[number.operator], first, other)
        elif number.operator == "choose":
            first = self.emit("Where", self.emit("Cast", first, to=TensorProto.BOOL), *others)
        else:
            compared = self.emit("Less" if number.operator == "is_less" else "Equal", first, *others)
            first = self.emit("Cast", compared, to=TensorProto.INT64)
        self._made[number] = first
        return first

    # Nodes of the new graph.

    def constant(self, array: Any) -> str:
        """Return the name of a constant."""
        array = np.asarray(array)
        key = ("constant", array.tobytes(), array.shape, str(array.dtype))
        if key not in self._made:
            self._made[key] = self.scope.add_constant(array, _HINT)
        return str(self._made[key])

    def integers(self, values: Sequence[int]) -> str:
        """Return the name of a constant vector of int64."""
        return self.constant(np.array(list(values), np.int64))

    def number_like(self, name: str, value: float) -> str:
        """Return the name of a constant scalar of a value's type."""
        return self.constant(np.array(value).astype(self.dtype(name)))

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Write a node with one output unless there is such a node already, and return the output's name."""
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
            outputs = [self.scope.fresh(_HINT) for _ in forms]
            values = [self.value(each) for each in inputs]
            self.nodes.append(helper.make_node(operator, values, outputs, domain=OWN, **attributes))
            for name, (kind, shape) in zip(outputs, forms, strict=True):
                self.scope.set_type(name, kind, shape)
            if operator != WRITTEN:
                self._natural.update(outputs)
            self._made[key] = outputs
        return list(self._made[key])

    def _write(self, node: onnx.NodeProto, said: onnx.NodeProto) -> list[str]:
        node.output[:] = [self.scope.fresh(_HINT) for _ in node.output]
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
        if max(int(np.prod(shape, dtype=np.int64)) for _, shape in types) > MOST_ELEMENTS:
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

    # The parts from which rules are made.

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
        if self.scope.opset < 10:  # noqa: PLR2004 - the first opset with inputs
            return self.emit("Slice", name, axes=[axis], starts=[start], ends=[end])
        return self.emit("Slice", name, *(self.integers([each]) for each in (start, end, axis, step)))

    def grow(self, name: str, axis: int, size: int) -> str:
        """Return the value with zeros behind its elements along an axis, so that there are ``size`` of them."""
        shape = list(self.shape(name))
        more = size - shape[axis]
        if more <= 0:
            return name
        shape[axis] = more
        zeros = self.constant(np.zeros(shape, self.dtype(name)))
        return zeros if 0 in self.shape(name) else self.emit("Concat", name, zeros, axis=axis)

    def live(self, length: Number, size: int) -> str:
        """Return a vector of ``size`` booleans, of which the first ``length`` are true."""
        places = self.integers(range(size))
        if isinstance(length, int):
            return self.constant(np.arange(size) < length)
        return self.emit("Less", places, self.scalar(length))

    def live_all(self, name: str) -> str | None:
        """Return which elements of a value are real, in a shape that broadcasts to its own; None if all of them are."""
        shape, result = self.shape(name), None
        for axis, length in sorted(self.lengths(name).items()):
            form = [size if place == axis else 1 for place, size in enumerate(shape)]
            part = self.reshape(self.live(length, shape[axis]), form)
            result = part if result is None else self.emit("And", result, part)
        return result

    def mask(self, name: str, fill: float, axes: Sequence[int] | None = None) -> str:
        """Return the value with ``fill`` in the places of elements that are not real, along all or some axes."""
        shape, result = self.shape(name), name
        for axis, length in sorted(self.lengths(name).items()):
            if axes is not None and axis not in axes:
                continue
            form = [size if place == axis else 1 for place, size in enumerate(shape)]
            live = self.reshape(self.live(length, shape[axis]), form)
            result = self._where(live, result, fill)
        return result

    def _where(self, live: str, name: str, fill: float) -> str:
        if self.kind(name) != TensorProto.BOOL:
            return self.emit("Where", live, name, self.number_like(name, fill))
        return self.emit("Or", name, self.emit("Not", live)) if fill else self.emit("And", name, live)

    def reduce(self, operator: str, name: str, axes: Sequence[int], *, keep: bool) -> str:
        """Reduce a value along axes, in the form of the model's opset."""
        last = 13 if operator == "ReduceSum" else 18
        if self.scope.opset >= last:
            return self.emit(operator, name, self.integers(axes), keepdims=int(keep))
        return self.emit(operator, name, axes=list(axes), keepdims=int(keep))


Rule: TypeAlias = Callable[[onnx.NodeProto, Tracker], Sequence[str]]
"""A rule, which writes a node with fixed shapes and returns the names of its results.

The names of the node's inputs are already those of the new graph."""


def attribute_of(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Return an attribute of a node, or its default."""
    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)


def cannot_follow(node: onnx.NodeProto, what: str) -> NodeError:
    """Return the error of a node whose lengths cannot be followed."""
    return refuse(
        node,
        f"{what}, and a package has fixed shapes",
        "end the model before it and do the rest in the program, or replace it by a mask (Where, Mul)",
    )
