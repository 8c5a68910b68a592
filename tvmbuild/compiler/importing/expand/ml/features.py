"""Expansion of operators on columns of numbers, which scale, normalise, fill in, pick or join columns."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.ml.rows import cast, numbers_of, read_rows, to_dtype
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import LABELS_OF_TEXTS, NodeError, refuse

_MATRIX = 2


def scaler(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Scaler: subtract an offset and multiply by a scale, each one number for all columns or one for each."""
    composer = NodeComposer(node, scope)
    shape = composer.known_shape(0)
    if shape is None:
        return None
    kind = numbers_of(composer)
    offset, scale = (_spread(composer, composer.attributes[name], shape, kind) for name in ("offset", "scale"))
    moved = composer.add("Sub", cast(composer, node.input[0], kind), offset)
    composer.name(cast(composer, composer.add("Mul", moved, scale), TensorProto.FLOAT), node.output[0])
    return composer.nodes


def _spread(composer: NodeComposer, values: list[float], shape: tuple[int, ...], kind: int) -> str:
    """Return a constant with these values that broadcasts to data of this shape."""
    return composer.constant(_repeat(np.array(values, np.float32).astype(to_dtype(kind)), shape))


def _repeat(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """If the shape has more than two dimensions, repeat the values in order to fill it, as ONNX Runtime does."""
    return np.resize(values, shape) if len(shape) > _MATRIX and values.size > 1 else values


def normalizer(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Normalizer: divide each row by its largest number, its sum of magnitudes, or its length.

    Rows of zeros stay.
    """
    composer = NodeComposer(node, scope)
    norm = composer.attributes.get("norm", "MAX")
    rows = read_rows(composer)
    if rows is None:
        return None
    if norm == "L2":
        # ONNX Runtime squares in the input's type, and sqrt(x²/sum) keeps digits that x/sqrt(sum) loses.
        own = read_rows(composer, numbers_of(composer)) or rows
        squares = cast(composer, composer.add("Mul", own, own), TensorProto.FLOAT)
        whole = composer.reduce("ReduceSum", squares, 1, keep=True)
    elif norm == "L1":
        whole = composer.reduce("ReduceSum", composer.add("Abs", rows), 1, keep=True)
    else:
        whole = composer.reduce("ReduceMax", rows, 1, keep=True)
    zero = composer.add("Equal", whole, composer.constant(np.float32(0)))
    divisor = composer.where(zero, composer.constant(np.ones((1, 1), np.float32)), whole)
    if norm == "L2":
        size = composer.add("Sqrt", composer.add("Div", squares, divisor))
        result = composer.add("Mul", size, composer.add("Sign", rows))
        result = composer.where(zero, rows, result)
    else:
        result = composer.add("Div", rows, divisor)
    shape = composer.known_shape(0) or ()
    composer.name(result if len(shape) == _MATRIX else composer.reshape(result, *shape), node.output[0])
    return composer.nodes


def imputer(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Imputer: replace elements equal to a given value (maybe NaN) by a constant.

    The constant is one for all columns, or one per column.
    """
    composer = NodeComposer(node, scope)
    data, shape, kind = node.input[0], composer.known_shape(0), scope.element_type(node.input[0])
    if shape is None or kind is None:
        return None
    is_float = kind in (TensorProto.FLOAT, TensorProto.DOUBLE)
    names = (
        ("imputed_value_floats", "replaced_value_float")
        if is_float
        else ("imputed_value_int64s", "replaced_value_int64")
    )
    given = composer.attributes.get(names[0], [])
    if not given:
        raise refuse(node, f"it has no values of the type {to_dtype(kind)}", f"export it with {names[0]}")
    replaced = composer.attributes.get(names[1], 0)
    if math.isnan(replaced):
        missing = composer.add("IsNaN", data)
    else:
        missing = composer.add("Equal", data, composer.constant(np.array(replaced, to_dtype(kind))))
    columns = shape[0] if len(shape) == 1 else shape[1]
    values = np.array(given if len(given) == columns else given[:1], to_dtype(kind))
    composer.name(composer.add("Where", missing, composer.constant(_repeat(values, shape)), data), node.output[0])
    return composer.nodes


def binarizer(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Binarizer: 1 for numbers above the threshold, else 0; NaN, on which ONNX Runtime fails, becomes 0."""
    composer = NodeComposer(node, scope)
    kind = scope.element_type(node.input[0])
    if kind is None:
        return None
    computed = numbers_of(composer)
    threshold = np.array(np.float32(composer.attributes.get("threshold", 0.0)), to_dtype(computed))
    above = composer.add("Greater", cast(composer, node.input[0], computed), composer.constant(threshold))
    composer.name(composer.add("Cast", above, to=kind), node.output[0])
    return composer.nodes


def array_feature_extractor(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand ArrayFeatureExtractor: pick elements of the last axis; the result has at least two dimensions."""
    composer = NodeComposer(node, scope)
    shape = composer.known_shape(0)
    if scope.element_type(node.input[0]) == TensorProto.STRING:
        raise NodeError(node, LABELS_OF_TEXTS)
    if shape is None:
        return None
    data = node.input[0] if len(shape) > 1 else composer.reshape(node.input[0], 1, -1)
    places = composer.reshape(node.input[1], -1)
    composer.name(composer.add("Gather", data, places, axis=max(1, len(shape) - 1)), node.output[0])
    return composer.nodes


def feature_vectorizer(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand FeatureVectorizer: join the rows of the inputs as floats.

    Each input's rows are cut, or filled up with zeros, to the input's length.
    """
    composer = NodeComposer(node, scope)
    if composer.lacks_shapes(*range(len(node.input))):
        return None
    parts = []
    for name, length in zip(node.input, composer.attributes["inputdimensions"], strict=True):
        shape = scope.shape(name) or ()
        rows, width = (1, shape[0]) if len(shape) == 1 else (shape[0], math.prod(shape[1:]))
        part = cast(composer, composer.reshape(name, rows, width), TensorProto.FLOAT)
        if width > length:
            part = composer.split(part, 1, [length, width - length])[0]
        parts.append(part)
        if width < length:
            parts.append(composer.constant(np.zeros((rows, length - width), np.float32)))
    composer.name(composer.concat(parts, 1), node.output[0])
    return composer.nodes
