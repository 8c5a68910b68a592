"""ONNX file → Relax module with its weights as constants."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass
from pathlib import Path

import onnx
import tvm
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tvm.relax.frontend.onnx import onnx_frontend

from tvmbuild.compiler.workarounds import drop_empty_resize_inputs, layout_friendly_importer
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo


@dataclass(frozen=True)
class ImportedModel:
    """A Relax module with one function ``main`` and the tensors that it takes and returns, in order."""

    mod: tvm.ir.IRModule
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


def import_onnx(path: Path) -> ImportedModel:
    """Read the ONNX file (external data too); weights become constants.

    A dynamic input or an operator that TVM cannot import is a TvmbuildError that names it.
    """
    try:
        model = onnx.load(path)
    except (OSError, ValueError, DecodeError, onnx.checker.ValidationError) as error:
        raise TvmbuildError(f"{path.name}: cannot be read as ONNX: {error}") from error
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_info(value, path) for value in model.graph.input if value.name not in initializers)
    mod = _import_graph(model, path)
    outputs = _output_infos([value.name for value in model.graph.output], mod, path)
    return ImportedModel(mod, inputs, outputs)


class _NamedImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """Remembers the node that it was converting, so that a failure can name it."""

    node: str | None = None

    def _convert_operator(
        self, op_name: str, inputs: list[tvm.relax.Expr], attrs: dict[str, dict[str, str]], opset: int
    ) -> tvm.relax.Expr:
        name = attrs["tvm_custom"]["name"]
        self.node = f"{op_name} (node {name!r})" if name else op_name
        drop_empty_resize_inputs(op_name, inputs)
        result = super()._convert_operator(op_name, inputs, attrs, opset)
        self.node = None
        return result


def _import_graph(model: onnx.ModelProto, path: Path) -> tvm.ir.IRModule:
    importer = _NamedImporter({}, "float32", sanitize=False)
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    try:
        # The importer prints the inputs of an operator that fails: megabytes of weights.
        with layout_friendly_importer(), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importer.from_onnx(model.graph, opset)
    except tvm.error.OpNotImplemented as error:
        raise TvmbuildError(f"{path.name}: {error}", "replace these operators in the model") from error
    except Exception as error:
        what = f"the operator {importer.node}" if importer.node else "the model"
        raise TvmbuildError(
            f"{path.name}: TVM cannot import {what}: {_summary(error)}", "rewrite or replace this operator in the model"
        ) from error


def _summary(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:200]}" if lines else type(error).__name__


def _info(value: onnx.ValueInfoProto, path: Path) -> TensorInfo:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or any(not dim.HasField("dim_value") for dim in tensor.shape.dim):
        shape = [dim.dim_param or dim.dim_value or "?" for dim in tensor.shape.dim]
        raise TvmbuildError(
            f"{path.name}: the input {value.name!r} has the dynamic shape {shape}",
            f"fix it in models.yaml, under inputs: {value.name}: shape",
        )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return TensorInfo(value.name, tuple(dim.dim_value for dim in tensor.shape.dim), str(dtype))


def _output_infos(names: list[str], mod: tvm.ir.IRModule, path: Path) -> tuple[TensorInfo, ...]:
    result = mod["main"].ret_ty
    types = list(result.fields) if isinstance(result, tvm.relax.TupleType) else [result]
    infos = []
    for name, tensor in zip(names, types, strict=True):
        try:
            shape = tuple(int(dim) for dim in tensor.shape)
        except TypeError as error:
            raise TvmbuildError(
                f"{path.name}: the output {name!r} has the dynamic shape {tensor.shape}",
                "fix the model's input shapes in models.yaml; a data-dependent shape cannot be compiled",
            ) from error
        infos.append(TensorInfo(name, shape, str(tensor.dtype)))
    return tuple(infos)
