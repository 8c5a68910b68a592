"""The importer: an ONNX file becomes a Relax module with its weights as constants."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tvm.relax.frontend.onnx import onnx_frontend

from tvmbuild.compiler.culprit import summarize
from tvmbuild.compiler.importing.bounds.bounds import bound_lengths
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.converters.inputs import normalise_inputs
from tvmbuild.compiler.importing.converters.table import CONVERTERS
from tvmbuild.compiler.importing.expand.expand import expand_what_can_be, find_rule
from tvmbuild.compiler.importing.expand.infinities import mark_infinities
from tvmbuild.compiler.importing.expand.recurrent_kernels import GPU_RULES
from tvmbuild.compiler.importing.expand.recurrent_kernels import RULES as CPU_RULES
from tvmbuild.compiler.importing.expand.scope import Scope, find_opset, list_read, walk_nodes
from tvmbuild.compiler.importing.float16 import add_up_in_float32, compute_in_float32
from tvmbuild.compiler.importing.kept import mark_kept
from tvmbuild.compiler.importing.reading import name_nodes, read_external_sparse, tidy
from tvmbuild.compiler.importing.refusals import OF_TEXTS, NodeError, Why, combine, find_reason
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo

_BY_THE_IMPORTER = frozenset({"Constant", "If"})


@dataclass(frozen=True)
class ImportedModel:
    """A Relax module with one function ``main`` and the tensors that it takes and returns, in order.

    If the length of an output depends on data, ``main`` returns one more tensor behind the outputs: the lengths.
    """

    mod: tvm.ir.IRModule
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    tf32: bool = False
    """True if products of float32 may use only the first 10 bits of the mantissa (TF32)."""
    notes: tuple[str, ...] = ()
    """The report's notes about the module."""


def import_onnx(
    model: Path | bytes, name: str | None = None, *, for_gpu: bool = False, keep: Collection[str] = ()
) -> ImportedModel:
    """Read an ONNX file with its external data, or a file's content, and import it as `import_model` does.

    ``keep`` are the names of nodes around which `kept.mark_kept` puts marks; nodes without a name have the one of
    `name_nodes`. Messages call the model ``name``, by default the file's name. Raises TvmbuildError if the model cannot
    be read or imported.
    """
    said = name or (model.name if isinstance(model, Path) else "model")
    try:
        read = onnx.load(model) if isinstance(model, Path) else onnx.load_from_string(model)
        if isinstance(model, Path):
            read_external_sparse(read, model.parent)
    except (OSError, ValueError, DecodeError, onnx.checker.ValidationError) as error:
        raise TvmbuildError(f"{said}: cannot be read as ONNX: {error}") from error
    if keep:
        name_nodes(read)
    with _named(said):
        tidy(read)
        mark_kept(read, keep)
    return import_model(read, said, for_gpu=for_gpu)


def import_model(model: onnx.ModelProto, said: str, *, for_gpu: bool = False) -> ImportedModel:
    """Import a model that `tidy` has prepared, and leave it unchanged; its weights become constants.

    CPUs compute 16-bit floats in float32; GPUs only add them up in float32. Raises TvmbuildError for a dynamic input,
    and for operators that cannot be imported; the error names these, and calls the model ``said``.
    """
    with _named(said):
        model, refused = _expand(model, for_gpu=for_gpu)
        bounded = bound_lengths(model)
    model, refused = bounded.model, {**refused, **bounded.refused}
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_info(value, said) for value in model.graph.input if value.name not in initializers)
    with _named(said):
        mod = _import_graph(model, inputs, refused)
    outputs = _output_infos([value.name for value in model.graph.output], mod, inputs, said)
    _check_outputs(outputs, model, said)
    if bounded.counts:  # the last output has the lengths of the others
        outputs = tuple(replace(each, counts=bounded.counts.get(each.name, ())) for each in outputs[:-1])
    return ImportedModel(mod, inputs, outputs)


def _expand(model: onnx.ModelProto, *, for_gpu: bool) -> tuple[onnx.ModelProto, dict[str, NodeError]]:
    if for_gpu:
        expanded, refused = expand_what_can_be(model, GPU_RULES)
        return add_up_in_float32(expanded), refused
    return expand_what_can_be(compute_in_float32(model), CPU_RULES)


@contextlib.contextmanager
def _named(said: str) -> Iterator[None]:
    try:
        yield
    except TvmbuildError as error:
        raise TvmbuildError(f"{said}: {error.message}", error.hint) from error


class _NamedImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """An importer that converts node by node, goes on after a failure, and reports all failures at the end."""

    def __init__(self, model: onnx.ModelProto, inputs: tuple[TensorInfo, ...], refused: dict[str, NodeError]) -> None:
        # We pass the shapes, because TVM reads a dimension of 0 as an unknown one.
        super().__init__({each.name: list(each.shape) for each in inputs}, "float32", sanitize=False)
        self._model, self._refused, self._lost = model, refused, set[str]()
        self._texts = set[str]()
        self._advice = _advise(inputs)

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Do nothing, because `_construct` checks each node when it converts the node."""

    def _construct_nodes(self, graph: onnx.GraphProto) -> None:
        errors = [error for node in graph.node if (error := self._construct(node)) is not None]
        if errors:
            raise combine(errors)

    def _construct(self, node: onnx.NodeProto) -> NodeError | None:
        error = self._refused.get(node.output[0]) or next(filter(None, map(self._find_error, _with_inner(node))), None)
        is_whole = self._lost.isdisjoint(list_read(node))
        if not is_whole and (find_rule(node) is not None or node.output[0] in self._refused):
            error = None  # the rule, or the bound, needed the values that are lost
        if error is None and is_whole:
            error = self._convert(node)
            if error is None:
                return None
        self._stand_in(node)
        return error

    def _find_error(self, node: onnx.NodeProto) -> NodeError | None:
        why = OF_TEXTS if self._texts.intersection(node.input) else find_reason(node, _list_known())
        if node.op_type == "Constant" and why:
            self._texts.update(node.output)
        return None if why is None else NodeError(node, why)

    def _parse_array(self, tensor_proto: onnx.TensorProto) -> tvm.runtime.Tensor:
        """Replace strings by an empty tensor, because TVM's tensors cannot hold strings."""
        if tensor_proto.data_type == onnx.TensorProto.STRING:
            self._texts.add(tensor_proto.name)
            return tvm.runtime.tensor(np.zeros(0, np.int8))
        return super()._parse_array(tensor_proto)

    def _convert(self, node: onnx.NodeProto) -> NodeError | None:
        try:
            super()._construct_nodes(onnx.GraphProto(node=[node]))
        except TvmbuildError as error:
            return NodeError(node, Why(error.message, error.hint or self._advice))
        except Exception as error:  # noqa: BLE001 - TVM may raise anything
            return NodeError(node, Why(summarize(error), self._advice), by_tvm=True)
        return None

    def _stand_in(self, node: onnx.NodeProto) -> None:
        """Replace the node's results by zeros of the right shapes, so that the nodes after it are checked, too."""
        for name in filter(None, node.output):
            shape, kind = self._scope.shape(name), self._scope.element_type(name)
            dtype = np.dtype(object) if kind is None else onnx.helper.tensor_dtype_to_np_dtype(kind)
            if shape is None or dtype.kind not in "biuf":
                self._lost.add(name)
            else:
                self._nodes[name] = self.bb.emit(tvm.relax.op.zeros(shape, str(dtype)))

    @cached_property
    def _scope(self) -> Scope:
        return Scope(self._model)

    def _convert_operator(
        self, op_name: str, inputs: list[tvm.relax.Expr], attrs: dict[str, Any], opset: int
    ) -> tvm.relax.Expr:
        normalise_inputs(op_name, inputs, attrs, opset, self.bb)
        by_tvm = partial(super()._convert_operator, op_name, inputs, attrs, opset)
        convert = CONVERTERS.get(op_name)
        if convert is None:
            return by_tvm()
        outputs = attrs["tvm_custom"]["num_outputs"]
        return self.bb.normalize(convert(NodeCall(op_name, inputs, attrs, opset, outputs, self.bb, by_tvm)))


@cache
def _list_known() -> frozenset[str]:
    known = onnx_frontend._get_convert_map().keys()  # noqa: SLF001 - no other way to ask
    return _BY_THE_IMPORTER.union(known, CONVERTERS)


def _with_inner(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    return walk_nodes(onnx.GraphProto(node=[node]))


def _import_graph(
    model: onnx.ModelProto, inputs: tuple[TensorInfo, ...], refused: dict[str, NodeError]
) -> tvm.ir.IRModule:
    importer, graph = _NamedImporter(model, inputs, refused), mark_infinities(model.graph)
    try:
        # The importer prints the inputs of an operator that fails: megabytes of weights.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importer.from_onnx(graph, find_opset(model))
    except TvmbuildError:
        raise
    except Exception as error:
        raise TvmbuildError(f"TVM cannot import the model: {summarize(error)}", _advise(inputs)) from error


def _advise(inputs: tuple[TensorInfo, ...]) -> str:
    return f"rewrite or replace this operator in the model{_deciding(inputs)}"


def _deciding(inputs: tuple[TensorInfo, ...]) -> str:
    """Return advice to fix the values of inputs that may decide on shapes and branches, or an empty string."""
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
    """Raise TvmbuildError if an output has another type or shape than the model says, which is an error in TVM."""
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
