"""A .tflite file as plain values; the package `tflite` knows the schema. Inconvertible parts are refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tvmbuild.errors import TvmbuildError

MAGIC = b"TFL3"
"""The file's mark, at its fifth byte."""
DTYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "FLOAT64": np.float64,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}


@dataclass(frozen=True)
class Tensor:
    """A value of the graph; constant if it has ``data``; with ``scale`` and ``zero`` its integers represent reals."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    data: np.ndarray | None = None
    scale: np.ndarray | None = None
    zero: np.ndarray | None = None
    axis: int = 0

    @property
    def is_quantised(self) -> bool:
        """Return whether its integers represent real numbers."""
        return self.scale is not None


@dataclass(frozen=True)
class Operator:
    """One operator; an input that is left out is None."""

    kind: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    options: Any = None

    def value(self, index: int) -> np.ndarray:
        """Return a constant input's value; TvmbuildError if it is computed."""
        tensor = self.inputs[index] if index < len(self.inputs) else None
        if tensor is None or tensor.data is None:
            raise TvmbuildError(f"the input {index} of {self.kind} is computed, and no constant")
        return tensor.data

    def tensor(self, index: int) -> Tensor:
        """Return an input that must be there."""
        found = self.inputs[index]
        if found is None:
            raise TvmbuildError(f"{self.kind} has no input {index}")
        return found

    def option(self, name: str, default: Any = None) -> Any:
        """Return an option; the default if the file has none."""
        return default if self.options is None else getattr(self.options, name)()


@dataclass(frozen=True)
class TfliteGraph:
    """The only subgraph of a file."""

    operators: tuple[Operator, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def is_tflite(path: Path) -> bool:
    """Return whether the file is TensorFlow Lite's, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(8)[4:] == MAGIC


def read_tflite(path: Path, schema: Any) -> TfliteGraph:
    """Return the file's graph; ``schema`` is the package `tflite`. TvmbuildError names all inconvertible parts."""
    try:
        return _Reader(schema, schema.Model.GetRootAs(path.read_bytes(), 0)).read()
    except (struct.error, IndexError, KeyError, ValueError, TypeError) as error:
        raise TvmbuildError(f"{path} is not a whole .tflite file: {error}", "fetch or convert it again") from error


@dataclass
class _Reader:
    schema: Any
    model: Any
    tensors: list[Tensor] = field(default_factory=list)

    @cached_property
    def kinds(self) -> dict[int, str]:
        return _names(self.schema.BuiltinOperator)

    def read(self) -> TfliteGraph:
        if self.model.SubgraphsLength() != 1:
            raise TvmbuildError("the network has control flow (IF, WHILE or a call), which is not converted")
        graph = self.model.Subgraphs(0)
        self.tensors = [self._tensor(graph.Tensors(index)) for index in range(graph.TensorsLength())]
        operators = [self._operator(graph.Operators(index)) for index in range(graph.OperatorsLength())]
        return TfliteGraph(
            tuple(each for each in operators if each is not None),
            tuple(self.tensors[graph.Inputs(index)] for index in range(graph.InputsLength())),
            tuple(self.tensors[graph.Outputs(index)] for index in range(graph.OutputsLength())),
        )

    def _operator(self, operator: Any) -> Operator | None:
        """Return the operator, or None if it only widens float16 constants to float32."""
        code = self.model.OperatorCodes(operator.OpcodeIndex())
        kind = self.kinds[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        if kind == "CUSTOM":
            kind = f"the custom operator {(code.CustomCode() or b'?').decode(errors='replace')}"
        first = self.tensors[operator.Inputs(0)] if operator.InputsLength() and operator.Inputs(0) >= 0 else None
        if kind == "DEQUANTIZE" and first is not None and first.data is not None and first.dtype == np.float16:
            wide = self.tensors[operator.Outputs(0)]
            self.tensors[operator.Outputs(0)] = replace(wide, data=first.data.astype(np.float32))
            return None
        inputs = (operator.Inputs(index) for index in range(operator.InputsLength()))
        return Operator(
            kind,
            tuple(None if index < 0 else self.tensors[index] for index in inputs),
            tuple(self.tensors[operator.Outputs(index)] for index in range(operator.OutputsLength())),
            self._options(operator),
        )

    def _options(self, operator: Any) -> Any:
        table = operator.BuiltinOptions()
        name = _names(self.schema.BuiltinOptions)[operator.BuiltinOptionsType()]
        if table is None or name == "NONE":
            return None
        options = getattr(self.schema, name)()
        options.Init(table.Bytes, table.Pos)
        return options

    def _tensor(self, tensor: Any) -> Tensor:
        name = tensor.Name().decode(errors="replace")
        kind = _names(self.schema.TensorType)[tensor.Type()]
        if kind not in DTYPES:
            raise TvmbuildError(f"the tensor {name} is of the type {kind}, which is not converted")
        if tensor.Sparsity() is not None:
            raise TvmbuildError(f"the tensor {name} is sparse (DENSIFY), which is not converted")
        if tensor.IsVariable():
            raise TvmbuildError(f"the tensor {name} is a variable that the network keeps, which is not converted")
        shape = tuple(tensor.Shape(index) for index in range(tensor.ShapeLength()))
        dtype = np.dtype(DTYPES[kind])
        raw = self.model.Buffers(tensor.Buffer()).DataAsNumpy()
        data = None
        if isinstance(raw, np.ndarray) and raw.size:
            data = np.frombuffer(raw.tobytes(), dtype).reshape(shape)
        return Tensor(name, shape, dtype, data, **self._quantisation(tensor, dtype))

    def _quantisation(self, tensor: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
        found = tensor.Quantization()
        if found is None or not found.ScaleLength() or dtype.kind not in "iu":
            return {}
        zero = found.ZeroPointAsNumpy() if found.ZeroPointLength() else np.zeros(found.ScaleLength())
        scale = found.ScaleAsNumpy().astype(np.float32)
        return {"scale": scale, "zero": np.asarray(zero).astype(dtype), "axis": found.QuantizedDimension()}


def _names(enumeration: type) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


def import_extra(name: str, explain: Callable[[], str]) -> Any:
    """Return a module of the extra; TvmbuildError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise TvmbuildError(explain()) from error
