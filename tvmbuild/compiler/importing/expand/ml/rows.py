"""Readers of a node's input as rows of floats, one row for each sample."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.refusals import refuse

_MAX_DIMENSIONS = 2


def read_rows(composer: NodeComposer, kind: int = TensorProto.FLOAT) -> str | None:
    """Return the input as [rows, features] of the type ``kind``, or None if its shape is not known yet.

    An input of one dimension is one row. Raises NodeError for more than two dimensions.
    """
    shape = composer.known_shape(0)
    if shape is None:
        return None
    if not 1 <= len(shape) <= _MAX_DIMENSIONS:
        raise refuse(
            composer.node, f"its input has {len(shape)} dimensions", "export it for a row of features a sample"
        )
    rows = composer.node.input[0] if len(shape) == _MAX_DIMENSIONS else composer.reshape(composer.node.input[0], 1, -1)
    return cast(composer, rows, kind)


def count_rows(composer: NodeComposer) -> int:
    """Return the number of rows that `read_rows` returns."""
    shape = composer.known_shape(0) or ()
    return 1 if len(shape) == 1 else int(shape[0])


def cast(composer: NodeComposer, value: str, kind: int) -> str:
    """Return the value cast to the element type ``kind``; return the value itself if it has this type."""
    return value if composer.scope.element_type(value) == kind else composer.add("Cast", value, to=kind)


def numbers_of(composer: NodeComposer) -> int:
    """Return the type in which ONNX Runtime computes with the input: float64 for float64, else float32."""
    is_double = composer.scope.element_type(composer.node.input[0]) == TensorProto.DOUBLE
    return int(TensorProto.DOUBLE if is_double else TensorProto.FLOAT)


def to_dtype(kind: int) -> str:
    """Return numpy's name of an ONNX element type."""
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind))
