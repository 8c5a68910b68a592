"""The reading of an ONNX file: fix its input shapes and find out its needs."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tvmbuild.base.did_you_mean import find_nearest
from tvmbuild.base.file_kinds import recognise
from tvmbuild.base.open_dimensions import PLACEHOLDERS
from tvmbuild.base.specs import InputSpec
from tvmbuild.compiler.importing.bounds.names import PRODUCERS
from tvmbuild.compiler.importing.expand.scope import list_read, walk_nodes
from tvmbuild.compiler.importing.reading import tidy
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.external_weights import load_external_weights, measure_external_weights
from tvmbuild.preparing.open_inputs import check_static, show_shape

MAX_BYTES = (1 << 31) - (1 << 20)
"""Protobuf's limit with some room, in bytes."""
_ROUNDING = ("QuantizeLinear", "DynamicQuantize", "QLinear", "QGemm")
"""The beginnings of the names of operators with results of 8 bits."""
_CONSTANTS_ALONE = 4
"""The version of ONNX's format from which a constant need not be listed as an input."""

_KEEPING = frozenset({"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"})
"""The operators whose outputs have the values of their first inputs."""


def load_model(path: Path, model: str) -> Any:
    """Return the ModelProto, tidy and with external data merged; TvmbuildError if the file is not a whole model."""
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise _explain_file(path, model, "is not an ONNX file, or is truncated") from error
    if not proto.graph.node or not proto.opset_import:
        raise _explain_file(path, model, "is not an ONNX model: it has no graph")
    if measure_external_weights(proto) > MAX_BYTES:
        raise _explain_size(path, model)
    load_external_weights(proto, path, model)
    try:
        tidy(proto)
    except TvmbuildError as error:
        raise TvmbuildError(f"{model}: {error.message}", error.hint) from error
    if proto.ByteSize() > MAX_BYTES:
        raise _explain_size(path, model)
    return proto


def _explain_size(path: Path, model: str) -> TvmbuildError:
    return TvmbuildError(f"{model}: {path} and its data are larger than 2 GB", "models that large are not supported")


def _explain_file(path: Path, model: str, otherwise: str) -> TvmbuildError:
    kind = recognise(path)
    if kind is None:
        return TvmbuildError(f"{model}: {path} {otherwise}", "Name a complete ONNX file, in a project by `source:`.")
    return TvmbuildError(f"{model}: {path} is not an ONNX file: it is {kind.name}", kind.remedy)


def graph_inputs(proto: Any) -> list[Any]:
    """Return the ValueInfoProtos that a caller must feed (older files list weights as inputs, too)."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in weights]


def fix_inputs(proto: Any, specs: Sequence[InputSpec], model: str) -> list[TensorInfo]:
    """Write the user's shapes and values into ``proto`` (in place) and return its inputs, all static.

    A symbolic dimension that a shape fixes is fixed wherever its name appears, unless another shape fixes it there.
    TvmbuildError for an unknown input, a wrong rank, size or dtype, and for a dimension left dynamic.
    """
    values = graph_inputs(proto)
    wanted = {spec.name: spec for spec in specs}
    _check_names(wanted, [value.name for value in values], model)
    bound: dict[str, set[int]] = {}
    for value in values:
        _check_type(value, model)
        if value.name in wanted:
            _fix_shape(value, wanted[value.name], bound, model)
    for value in (*values, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            sizes = bound.get(dim.dim_param, set()) if dim.dim_param not in PLACEHOLDERS else set()
            if len(sizes) == 1:
                (dim.dim_value,) = sizes
    del proto.graph.value_info[:]  # they name the symbolic dimensions that are gone
    for value in values:
        if value.name in wanted and wanted[value.name].value is not None:
            _make_constant(proto, value, wanted[value.name], model)
    values = graph_inputs(proto)
    check_static(values, model)
    return [_tensor_info(value) for value in values]


def find_precision(proto: Any) -> str:
    """Return the model's precision: int8 if it rounds to 8 bits on the way, otherwise the type of most weights."""
    if any(node.op_type.startswith(_ROUNDING) for node in proto.graph.node):
        return "int8"
    sizes: dict[int, int] = {}
    for tensor in proto.graph.initializer:
        sizes[tensor.data_type] = sizes.get(tensor.data_type, 0) + math.prod(tensor.dims)
    largest = max(sizes, key=lambda kind: sizes[kind], default=onnx.TensorProto.FLOAT)
    return {onnx.TensorProto.FLOAT16: "fp16", onnx.TensorProto.BFLOAT16: "bf16"}.get(largest, "fp32")


def set_output_shapes(proto: Any, outputs: dict[str, np.ndarray]) -> None:
    """Write the output shapes of a run into the graph (in place), except where they depend on the run's data."""
    varying = find_varying(proto)
    for value in proto.graph.output:
        shape = value.type.tensor_type.shape
        if value.name in varying:
            for _ in outputs[value.name].shape[len(shape.dim) :]:
                shape.dim.add()  # onnxsim needs the rank
            shape.SetInParent()
            continue
        del shape.dim[:]
        for size in outputs[value.name].shape:
            shape.dim.add().dim_value = size


def find_varying(proto: Any) -> set[str]:
    """Return the values after operators that find elements or boxes: their lengths may depend on data."""
    functions = {each.name for each in proto.functions if any(node.op_type in PRODUCERS for node in each.node)}
    varying: set[str] = set()
    for node in proto.graph.node:
        inner = [node, *walk_nodes(onnx.GraphProto(node=[node]))]
        if any(each.op_type in PRODUCERS | functions for each in inner) or not varying.isdisjoint(list_read(node)):
            varying.update(filter(None, node.output))
    return varying


def with_outputs(proto: Any, names: Iterable[str]) -> Any:
    """Return a copy of the model with these tensors as its outputs, of any type and shape."""
    marked = onnx.ModelProto.FromString(proto.SerializeToString())
    del marked.graph.output[:]
    marked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return marked


def find_probabilities(proto: Any) -> set[str]:
    """Return the names of the graph's outputs that a Softmax makes, also if they are reshaped after it."""
    makers = {name: node for node in proto.graph.node for name in node.output}
    return {value.name for value in proto.graph.output if comes_of(value.name, makers, "Softmax", _KEEPING)}


def comes_of(name: str, makers: Mapping[str, Any], kind: str, passing: Collection[str]) -> bool:
    """Return whether the value comes from an operator of this ``kind``, directly or through the types in ``passing``.

    ``makers`` has the node that makes each value. All inputs of an operator in between are followed.
    """
    left, seen = [name], {name}
    while left:
        maker = makers.get(left.pop())
        if maker is None:
            continue
        if maker.op_type == kind:
            return True
        if maker.op_type in passing:
            left += [each for each in maker.input if each not in seen]
            seen.update(maker.input)
    return False


def _check_names(wanted: dict[str, InputSpec], names: list[str], model: str) -> None:
    for name in wanted:
        if name not in names:
            near = find_nearest(name, names)
            raise TvmbuildError(
                f"{model}: the model has no input {name}; its inputs are {', '.join(names) or 'none'}",
                (f"did you mean {near}? C" if near else "c") + "orrect `inputs:` in models.yaml",
            )


def _check_type(value: Any, model: str) -> None:
    if value.type.WhichOneof("value") != "tensor_type":
        raise TvmbuildError(f"{model}: the input {value.name} is not a tensor", "only tensors are supported")
    kind = value.type.tensor_type.elem_type
    if kind in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        raise TvmbuildError(
            f"{model}: the input {value.name} has the element type {onnx.TensorProto.DataType.Name(kind)}",
            "only numbers are supported: export the model without its text processing",
        )


def _fix_shape(value: Any, spec: InputSpec, bound: dict[str, set[int]], model: str) -> None:
    dtype = _dtype(value)
    if spec.dtype is not None and spec.dtype != dtype:
        raise TvmbuildError(
            f"{model}: the input {value.name} is {dtype} in the ONNX file, models.yaml says {spec.dtype}",
            f"write `dtype: {dtype}` or leave dtype out",
        )
    if spec.shape is None:
        return
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        for size in spec.shape:
            tensor.shape.dim.add().dim_value = size
    dims = tensor.shape.dim
    shown = show_shape(value)
    if len(dims) != len(spec.shape):
        raise TvmbuildError(
            f"{model}: the input {value.name} has {len(dims)} dimensions {shown}, "
            f"models.yaml gives {len(spec.shape)}: {list(spec.shape)}",
            "correct `shape:` in models.yaml",
        )
    for index, (dim, size) in enumerate(zip(dims, spec.shape, strict=True)):
        if dim.dim_value > 0 and dim.dim_value != size:
            raise TvmbuildError(
                f"{model}: dimension {index} of the input {value.name} {shown} is {dim.dim_value}, "
                f"models.yaml says {size}",
                "only dynamic dimensions, and a batch of 1, can be changed: correct `shape:` in models.yaml",
            )
        if dim.dim_param:
            bound.setdefault(dim.dim_param, set()).add(size)
        dim.dim_value = size


def _make_constant(proto: Any, value: Any, spec: InputSpec, model: str) -> None:
    """Turn the input into a constant."""
    where = f"{model}: the `value:` of the input {value.name}"
    try:
        given = np.array(json.loads(str(spec.value)))
        with np.errstate(over="ignore"):
            constant = given.astype(_dtype(value))
    except (ValueError, TypeError, OverflowError) as error:
        raise TvmbuildError(f"{where} has lists of different lengths, or no numbers", "correct it") from error
    if given.dtype.kind not in "biuf":
        raise TvmbuildError(f"{where} has lists of different lengths, or no numbers", "correct it")
    is_float = np.issubdtype(constant.dtype, np.floating)
    if not (np.isfinite(constant).all() if is_float else np.array_equal(constant.astype(given.dtype), given)):
        raise TvmbuildError(f"{where} is {spec.value}, which does not fit {constant.dtype}", "correct it")
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    if given.ndim == 0 and all(size > 0 for size in shape):
        constant = np.full(shape, constant)
    elif len(shape) != given.ndim or any(size not in {0, has} for size, has in zip(shape, given.shape, strict=True)):
        shown = f"{list(given.shape)}, the input {show_shape(value)}"
        raise TvmbuildError(f"{where} has the shape {shown}", "give it the input's shape, or a number for all elements")
    if proto.ir_version >= _CONSTANTS_ALONE:
        proto.graph.input.remove(value)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(constant, value.name))


def _dtype(value: Any) -> str:
    return str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _tensor_info(value: Any) -> TensorInfo:
    shape = tuple(int(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
    return TensorInfo(value.name, shape, _dtype(value))
