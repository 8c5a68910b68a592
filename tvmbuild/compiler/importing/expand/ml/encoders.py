"""Expansion of encoders, which replace numbers by other numbers: LabelEncoder and OneHotEncoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tvmbuild.compiler.importing.expand.ml.rows import cast
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import OF_TEXTS, NodeError

_NAN_IS_EQUAL = 4
"""The first opset of ai.onnx.ml in which a NaN among the keys matches NaN in the data."""
_DEFAULTS = {"floats": np.float32(-0.0), "int64s": np.int64(-1)}


def label_encoder(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand LabelEncoder: keys become their values, and other inputs become the default.

    Of equal keys, the first one counts. Return None if the shape is unknown. Raises NodeError for strings.
    """
    composer = NodeComposer(node, scope)
    shape = composer.known_shape(0)
    keys, values = (_read_tensor(composer, name) for name in ("keys", "values"))
    if keys is None or values is None:
        raise NodeError(node, OF_TEXTS)
    if shape is None:
        return None
    data = cast(composer, node.input[0], onnx.helper.np_dtype_to_tensor_dtype(keys.dtype))
    apart = composer.unsqueeze(data, [len(shape)])
    found = composer.add("Equal", apart, composer.constant(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any() and _find_version(scope) >= _NAN_IS_EQUAL:
        both = composer.add("And", composer.add("IsNaN", apart), composer.constant(np.isnan(keys)))
        found = composer.add("Or", found, both)
    numbers = composer.constant(np.arange(keys.size, dtype=np.int32))
    places = composer.add("Where", found, numbers, composer.constant(np.int32(keys.size)))
    first = composer.reduce("ReduceMin", places, len(shape))
    known = composer.constant(np.append(values, _read_default(composer, values)))
    composer.name(composer.add("Gather", known, first, axis=0), node.output[0])
    return composer.nodes


def _find_version(scope: Scope) -> int:
    return int(next(entry.version for entry in scope.model.opset_import if entry.domain == "ai.onnx.ml"))


def _read_tensor(composer: NodeComposer, name: str) -> np.ndarray | None:
    """Return the numbers of the attribute ``name`` (keys or values), or None if they are strings."""
    given = composer.attributes
    for ending, dtype in (("floats", np.float32), ("int64s", np.int64)):
        if given.get(f"{name}_{ending}"):
            return np.array(given[f"{name}_{ending}"], dtype)
    if f"{name}_tensor" not in given:
        return None
    array = numpy_helper.to_array(given[f"{name}_tensor"]).reshape(-1)
    return array if array.dtype.kind in "biuf" else None


def _read_default(composer: NodeComposer, values: np.ndarray) -> Any:
    tensor = composer.attributes.get("default_tensor")
    if tensor is not None:
        return numpy_helper.to_array(tensor).reshape(-1)[:1].astype(values.dtype)
    name = "floats" if values.dtype.kind == "f" else "int64s"
    return values.dtype.type(composer.attributes.get(f"default_{name.removesuffix('s')}", _DEFAULTS[name]))


def one_hot_encoder(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand OneHotEncoder: 1 in the category's place along a new last axis, and zeros for an unknown category.

    Of equal categories, the last one counts. If ``zeros`` is 0, ONNX Runtime fails on unknown categories; here they
    become zeros. Return None if the shape is unknown. Raises NodeError for strings.
    """
    composer = NodeComposer(node, scope)
    categories = composer.attributes.get("cats_int64s")
    if not categories:
        raise NodeError(node, OF_TEXTS)
    shape = composer.known_shape(0)
    if shape is None:
        return None
    data = composer.unsqueeze(cast(composer, node.input[0], TensorProto.INT64), [len(shape)])
    found = composer.add("Equal", data, composer.constant(np.array(categories, np.int64)))
    last = [each not in categories[place + 1 :] for place, each in enumerate(categories)]
    if not all(last):
        found = composer.add("And", found, composer.constant(np.array(last)))
    composer.name(composer.add("Cast", found, to=TensorProto.FLOAT), node.output[0])
    return composer.nodes
