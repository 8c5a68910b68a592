"""Small .tflite files, written by the schema's own classes, which come with LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

IDENTIFIER = b"TFL3"
TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "int8": 9}


@dataclass
class TfliteFile:
    """One subgraph under construction; tensors are named by their index."""

    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    codes: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schema = import_module("ai_edge_litert.schema_py_generated")
        self.buffers.append(self.schema.BufferT())

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str = "float32",
        *,
        data: np.ndarray | None = None,
        scale: Sequence[float] = (),
        zero: int = 0,
        axis: int = 0,
    ) -> int:
        made = self.schema.TensorT()
        made.name, made.shape, made.type = f"t{len(self.tensors)}", list(shape), TYPES[dtype]
        if data is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(data.astype(dtype).tobytes(), np.uint8)
            self.buffers.append(buffer)
            made.buffer = len(self.buffers) - 1
        if scale:
            made.quantization = self.schema.QuantizationParametersT()
            made.quantization.scale = np.asarray(scale, np.float32)
            made.quantization.zeroPoint = np.full(len(scale), zero, np.int64)
            made.quantization.quantizedDimension = axis
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, data: Any, dtype: str = "float32", **quantisation: Any) -> int:
        array = np.asarray(data)
        return self.tensor(array.shape, dtype, data=array, **quantisation)

    def operator(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        table: str = "",
        custom: str = "",
        **options: Any,
    ) -> None:
        code, made = self.schema.OperatorCodeT(), self.schema.OperatorT()
        code.builtinCode = getattr(self.schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        code.customCode = custom or None
        self.codes.append(code)
        made.opcodeIndex, made.inputs, made.outputs = len(self.codes) - 1, list(inputs), list(outputs)
        if table:
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, table)
            made.builtinOptions = getattr(self.schema, f"{table}T")()
            for name, value in options.items():
                assert hasattr(made.builtinOptions, name)
                setattr(made.builtinOptions, name, value)
        self.operators.append(made)

    def save(self, path: Path, inputs: Sequence[int], outputs: Sequence[int]) -> Path:
        flatbuffers = import_module("flatbuffers")
        graph, model = self.schema.SubGraphT(), self.schema.ModelT()
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs, graph.outputs = list(inputs), list(outputs)
        model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, [graph], self.buffers, self.codes
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), IDENTIFIER)
        path.write_bytes(bytes(builder.Output()))
        return path
