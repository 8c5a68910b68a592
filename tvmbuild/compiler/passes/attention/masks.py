"""Masks as functions get them: float32, and what constant ones hide from a row whatever the scores are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.rewrite import resolve
from tvmbuild.compiler.kernels.attention.views import dense
from tvmbuild.compiler.passes.attention.pattern import MaskOf
from tvmbuild.compiler.passes.attention.sources import Source

_HIDES = -1e9
"""A score to which this is added has the weight 0 beside any other."""


@dataclass(frozen=True)
class Prepared:
    """A mask's numbers, as a view of the scores' shape, and what they do."""

    source: Source
    fill: float | None


def prepare_mask(rewriter: PyExprMutator, mask: MaskOf, made: dict[object, Prepared]) -> Prepared | None:
    """Return the mask with the numbers of neighbouring queries side by side: a vector has some queries of one key.

    ``made`` keeps what was made, so that all layers share it.
    """
    tensor = rewriter.visit_expr(mask.tensor)
    while is_call(value := resolve(rewriter.lookup_binding, tensor), "relax.broadcast_to"):
        tensor = value.args[0]
    constant_value = value if isinstance(value, tvm.ir.GenericConst) else None
    named = tensor if constant_value is None else constant_value
    shape = static_shape(named)
    if shape is None:
        return None
    name = (hash(named), mask.fill is None, mask.keeps, mask.factor)
    if name not in made:
        tensor = _lay_out(named, mask, shape)
        emitted = tensor if isinstance(tensor, tvm.ir.GenericConst) else rewriter.builder_.emit(tensor)
        made[name] = Prepared(Source(emitted, dense(static_shape(emitted) or ())), None)
    view = made[name].source.view
    if _has_rows(shape):
        view = view.permute([*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
    return Prepared(replace(made[name].source, view=view.broadcast(mask.shape)), mask.fill)


def _has_rows(shape: Sequence[int]) -> bool:
    return len(shape) > 1 and shape[-2] > 1


def _lay_out(tensor: relax.Expr, mask: MaskOf, shape: tuple[int, ...]) -> relax.Expr:
    axes = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2] if _has_rows(shape) else None
    if isinstance(tensor, tvm.ir.GenericConst):
        values = tensor.value.numpy()
        values = (values if mask.fill is None or mask.keeps else np.logical_not(values)).astype("float32")
        values = values if mask.factor == 1 else values * np.float32(mask.factor)
        return constant(np.ascontiguousarray(values if axes is None else values.transpose(axes)))
    numbers = tensor if str(tensor.ty.dtype) == "float32" else relax.op.astype(tensor, "float32")
    if mask.fill is not None and not mask.keeps:
        numbers = relax.op.subtract(relax.const(1.0, "float32"), numbers)
    if mask.factor != 1:
        numbers = relax.op.multiply(numbers, relax.const(mask.factor, "float32"))
    return numbers if axes is None else relax.op.permute_dims(numbers, axes)


def find_visible(masks: Sequence[MaskOf], shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return for each row the keys that some head sees through the constant masks; nothing where that is no gain."""
    hidden = _hides(masks[0]) if len(masks) == 1 else None
    if hidden is None or not hidden.any():
        return ()
    seen = ~np.broadcast_to(hidden, (*hidden.shape[:-2], *shape[-2:])).reshape(-1, *shape[-2:])
    if not seen.any(axis=-1).all():
        return ()
    rows = np.asarray(seen.any(axis=0))
    first, last = rows.argmax(axis=1), rows.shape[1] - rows[:, ::-1].argmax(axis=1)
    return tuple((int(begin), int(end)) for begin, end in zip(first, last, strict=True))


def _hides(mask: MaskOf) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return where a constant mask hides a key; None of one that is computed."""
    if not isinstance(mask.tensor, tvm.ir.GenericConst):
        return None
    values: np.ndarray[Any, Any] = mask.tensor.value.numpy()
    if mask.fill is None:
        return np.asarray(values.astype(np.float32) * np.float32(mask.factor) <= _HIDES)
    hidden = np.logical_not(values) if mask.keeps else values.astype(bool)
    return hidden if mask.fill <= _HIDES else np.zeros_like(hidden)
