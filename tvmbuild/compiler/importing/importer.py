"""ONNX file → Relax module with its weights as constants."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import tvm
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tvm.relax.frontend.onnx import onnx_frontend

from tvmbuild.compiler.culprit import summarize
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.converters.table import CONVERTERS
from tvmbuild.compiler.importing.expand.expand import ONNX, expand_operators
from tvmbuild.compiler.importing.expand.infinities import mark_infinities
from tvmbuild.compiler.importing.expand.recurrent_kernels import RULES as KERNELS
from tvmbuild.compiler.importing.expand.scope import find_opset
from tvmbuild.compiler.importing.float16 import add_up_in_float32, compute_in_float32
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo


@dataclass(frozen=True)
class ImportedModel:
    """A Relax module with one function ``main`` and the tensors that it takes and returns, in order."""

    mod: tvm.ir.IRModule
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    tf32: bool = False
    """Whether products of float32 may be of their first 10 bits."""


def import_onnx(model: Path | bytes, name: str | None = None, *, for_gpu: bool = False) -> ImportedModel:
    """Read the ONNX file (external data too) or its content, and do what `import_model` does.

    Messages call it ``name``, by default as the file.
    """
    said = name or (model.name if isinstance(model, Path) else "model")
    try:
        read = onnx.load(model) if isinstance(model, Path) else onnx.load_from_string(model)
    except (OSError, ValueError, DecodeError, onnx.checker.ValidationError) as error:
        raise TvmbuildError(f"{said}: cannot be read as ONNX: {error}") from error
    return import_model(read, said, for_gpu=for_gpu)


def import_model(model: onnx.ModelProto, said: str, *, for_gpu: bool = False) -> ImportedModel:
    """Import the model, which stays as it is; weights become constants.

    CPUs compute its 16-bit floats in float32; GPUs add them up in float32.
    A dynamic input or an operator that TVM cannot import is a TvmbuildError that names it, and the model as ``said``.
    """
    model = _expand(model, said, for_gpu=for_gpu)
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_info(value, said) for value in model.graph.input if value.name not in initializers)
    mod = _import_graph(model, inputs, said)
    outputs = _output_infos([value.name for value in model.graph.output], mod, inputs, said)
    _check_outputs(outputs, model, said)
    return ImportedModel(mod, inputs, outputs)


def _expand(model: onnx.ModelProto, said: str, *, for_gpu: bool) -> onnx.ModelProto:
    try:
        if for_gpu:
            return add_up_in_float32(expand_operators(model))
        return expand_operators(compute_in_float32(model), KERNELS)
    except TvmbuildError as error:
        raise TvmbuildError(f"{said}: {error.message}", error.hint) from error


class _NamedImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """Remembers the node that it was converting, so that a failure can name it."""

    node: str | None = None

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        known = onnx_frontend._get_convert_map().keys() | CONVERTERS.keys() | {"If"}  # noqa: SLF001 - no other way to ask
        foreign = {f"{node.op_type} of {node.domain}" for node in graph.node if node.domain not in ONNX}
        own = {node.op_type for node in graph.node if node.domain in ONNX}
        lacking = sorted(foreign | (own - known))
        if lacking:
            what = "the operator" if len(lacking) == 1 else "the operators"
            raise TvmbuildError(
                f"there is no code for {what} {', '.join(lacking)}", "replace what the model does with other operators"
            )

    def _convert_operator(
        self, op_name: str, inputs: list[tvm.relax.Expr], attrs: dict[str, Any], opset: int
    ) -> tvm.relax.Expr:
        name = attrs["tvm_custom"]["name"]
        self.node = f"{op_name} (node {name!r})" if name else op_name
        by_tvm = partial(super()._convert_operator, op_name, inputs, attrs, opset)
        convert = CONVERTERS.get(op_name)
        if convert is None:
            result = by_tvm()
        else:
            outputs = attrs["tvm_custom"]["num_outputs"]
            result = self.bb.normalize(convert(NodeCall(op_name, inputs, attrs, opset, outputs, self.bb, by_tvm)))
        self.node = None
        return result


def _import_graph(model: onnx.ModelProto, inputs: tuple[TensorInfo, ...], said: str) -> tvm.ir.IRModule:
    # The shapes are named because TVM takes a dimension of 0 for one that is not known.
    importer = _NamedImporter({each.name: list(each.shape) for each in inputs}, "float32", sanitize=False)
    graph = mark_infinities(model.graph)
    try:
        # The importer prints the inputs of an operator that fails: megabytes of weights.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importer.from_onnx(graph, find_opset(model))
    except TvmbuildError as error:
        what = f"the operator {importer.node} cannot be built: " if importer.node else ""
        hint = error.hint or _advise(inputs)
        raise TvmbuildError(f"{said}: {what}{error.message}", hint) from error
    except Exception as error:
        what = f"the operator {importer.node}" if importer.node else "the model"
        raise TvmbuildError(
            f"{said}: TVM cannot import {what}: {summarize(error)}",
            _advise(inputs),
        ) from error


def _advise(inputs: tuple[TensorInfo, ...]) -> str:
    return f"rewrite or replace this operator in the model{_deciding(inputs)}"


def _deciding(inputs: tuple[TensorInfo, ...]) -> str:
    """Return what to do about inputs that may decide about shapes and branches."""
    names = [each.name for each in inputs if "float" not in each.dtype]
    if not names:
        return ""
    return f"; where {' or '.join(names)} decides what it computes, fix that: `inputs: {{{names[0]}: {{value: …}}}}`"


def _info(value: onnx.ValueInfoProto, said: str) -> TensorInfo:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or any(not dim.HasField("dim_value") for dim in tensor.shape.dim):
        shape = [dim.dim_param or dim.dim_value or "?" for dim in tensor.shape.dim]
        raise TvmbuildError(
            f"{said}: the input {value.name!r} has the dynamic shape {shape}",
            f"fix it in models.yaml, under inputs: {value.name}: shape",
        )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return TensorInfo(value.name, tuple(dim.dim_value for dim in tensor.shape.dim), str(dtype))


def _output_infos(
    names: list[str], mod: tvm.ir.IRModule, inputs: tuple[TensorInfo, ...], said: str
) -> tuple[TensorInfo, ...]:
    result = mod["main"].ret_ty
    types = list(result.fields) if isinstance(result, tvm.relax.TupleType) else [result]
    infos = []
    for name, tensor in zip(names, types, strict=True):
        try:
            shape = tuple(int(dim) for dim in tensor.shape)
        except TypeError as error:
            raise TvmbuildError(
                f"{said}: the output {name!r} has the dynamic shape {tensor.shape}",
                "fix the model's input shapes in models.yaml; a data-dependent shape cannot be compiled"
                + _deciding(inputs),
            ) from error
        infos.append(TensorInfo(name, shape, str(tensor.dtype)))
    return tuple(infos)


def _check_outputs(outputs: tuple[TensorInfo, ...], model: onnx.ModelProto, said: str) -> None:
    """Raise TvmbuildError where TVM took an operator for another, so that an output has another type or shape."""
    made_by = {name: node.op_type for node in model.graph.node for name in node.output}
    for got, value in zip(outputs, model.graph.output, strict=True):
        tensor = value.type.tensor_type
        shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        known = tensor.HasField("shape") and None not in shape
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)) if tensor.elem_type else got.dtype
        problems = [f"the shape {list(got.shape)} instead of {shape}"] if known and list(got.shape) != shape else []
        problems += [f"the type {got.dtype} instead of {dtype}"] if got.dtype != dtype else []
        if problems:
            raise TvmbuildError(
                f"{said}: TVM gives the output {got.name!r}, which {made_by.get(got.name, 'the model')} makes, "
                f"{' and '.join(problems)}",
                "rewrite or replace this operator in the model",
            )
