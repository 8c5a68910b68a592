"""The search from a tensor of the graph back to the tensor that holds its numbers in another order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import operator_name
from tvmbuild.compiler.ir.def_use import Lookup, resolve
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.kernels.attention.views import View, dense


@dataclass(frozen=True)
class Source:
    """A tensor as a view: the places of its elements in another ``tensor``, and the factor that multiplies them."""

    tensor: relax.Expr
    view: View
    factor: float = 1.0


def scalar(expr: relax.Expr) -> float | None:
    """Return the value of a constant of one element, or None for other expressions."""
    if not isinstance(expr, tvm.ir.GenericConst) or expr.value.numpy().size != 1:
        return None
    return float(expr.value.numpy().reshape(()))


def find_source(lookup: Lookup, expr: relax.Expr, *, scaled: bool = False) -> Source | None:
    """Return the earliest tensor in the graph that the expression is a view of, with this view.

    Return None if the shape of the expression is unknown or empty. If ``scaled``, follow multiplications by constant
    scalars, too.
    """
    shape = static_shape(expr)
    if shape is None or 0 in shape:
        return None
    value = resolve(lookup, expr)
    found = _follow(lookup, value, scaled=scaled)
    if found is not None:
        return found
    return Source(expr, dense(shape))


def _follow(lookup: Lookup, value: relax.Expr, *, scaled: bool) -> Source | None:
    if isinstance(value, relax.TupleGetItem):
        return _follow_split(lookup, value, scaled=scaled)
    if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op):
        return None
    name = operator_name(value)
    if scaled and name in {"multiply", "divide"}:
        return _follow_scale(lookup, value, name)
    rule = _RULES.get(name)
    if rule is None:
        return None
    if name == "concat":
        return _follow_repetition(lookup, value, scaled=scaled)
    source = find_source(lookup, value.args[0], scaled=scaled)
    view = None if source is None else rule(source.view, value)
    return None if source is None or view is None else replace(source, view=view)


def _follow_scale(lookup: Lookup, call: relax.Call, name: str) -> Source | None:
    for data, by in (call.args, call.args[::-1] if name == "multiply" else call.args):
        value = scalar(by)
        if value and static_shape(data) == static_shape(call):
            source = find_source(lookup, data, scaled=True)
            factor = value if name == "multiply" else 1 / value
            return None if source is None else replace(source, factor=source.factor * factor)
    return None


def _follow_split(lookup: Lookup, item: relax.TupleGetItem, *, scaled: bool) -> Source | None:
    call = resolve(lookup, item.tuple_value)
    if not isinstance(call, tvm.ir.Call) or call.op != tvm.ir.Op.get("relax.split"):
        return None
    source = find_source(lookup, call.args[0], scaled=scaled)
    shapes = [static_shape(relax.Var("part", part)) for part in call.ty.fields]
    if source is None or not all(shapes):
        return None
    axis = int(call.attrs.axis) % len(source.view.axes)
    extents = [shape[axis] for shape in shapes if shape]
    begin = sum(extents[: item.index])
    view = source.view.slice(axis, begin, begin + extents[item.index])
    return None if view is None else replace(source, view=view)


def _follow_repetition(lookup: Lookup, call: relax.Call, *, scaled: bool) -> Source | None:
    """Return the source of a concatenation of one tensor with itself, or None for other concatenations."""
    parts = resolve(lookup, call.args[0])
    if not isinstance(parts, relax.Tuple) or call.attrs.axis is None:
        return None
    found = [find_source(lookup, part, scaled=scaled) for part in parts.fields]
    first = found[0]
    if first is None or any(
        each is None or not each.tensor.same_as(first.tensor) or (each.view, each.factor) != (first.view, first.factor)
        for each in found
    ):
        return None
    axis = int(call.attrs.axis) % len(first.view.axes)
    return replace(first, view=first.view.repeat(axis, len(found), each=False))


def _reshape(view: View, call: relax.Call) -> View | None:
    shape = static_shape(call)
    return None if shape is None else view.reshape(shape)


def _permute(view: View, call: relax.Call) -> View:
    return view.permute([int(axis) for axis in call.attrs.axes or range(len(view.axes))[::-1]])


def _broadcast(view: View, call: relax.Call) -> View | None:
    shape = static_shape(call)
    return None if shape is None else view.broadcast(shape)


def _repeat(view: View, call: relax.Call) -> View | None:
    if call.attrs.axis is None:
        return None
    return view.repeat(int(call.attrs.axis) % len(view.axes), int(call.attrs.repeats), each=True)


def _tile(view: View, call: relax.Call) -> View | None:
    times = [int(each) for each in call.attrs.repeats]
    view = view.broadcast((1,) * max(0, len(times) - len(view.axes)) + view.shape)
    for axis, each in enumerate(reversed(times)):
        view = view.repeat(len(view.axes) - 1 - axis, each, each=False)
    return view


def _integer(expr: relax.Expr) -> int | None:
    value = getattr(expr, "value", expr)
    return int(value) if isinstance(value, int) else None


def _slice(view: View, call: relax.Call) -> View | None:
    if len(call.args) not in {4, 5} or not all(isinstance(each, relax.Tuple) for each in call.args[1:]):
        return None
    read = [[_integer(each) for each in part.fields] for part in call.args[1:]]
    numbers = [[each for each in part if each is not None] for part in read]
    if any(len(part) < len(numbers[0]) for part in numbers):
        return None
    axes, begins, ends, *steps = numbers
    made: View | None = view
    for axis, begin, end, step in zip(axes, begins, ends, steps[0] if steps else [1] * len(axes), strict=True):
        if made is None or step < 1:
            return None
        extent = made.shape[axis]
        first, last = (min(max(each + extent if each < 0 else each, 0), extent) for each in (begin, end))
        made = made.slice(axis % len(made.axes), first, last, step) if first < last else None
    return made


_RULES: Mapping[str, Callable[[View, relax.Call], View | None]] = MappingProxyType(
    {
        "reshape": _reshape,
        "expand_dims": _reshape,
        "squeeze": _reshape,
        "flatten": _reshape,
        "permute_dims": _permute,
        "broadcast_to": _broadcast,
        "repeat": _repeat,
        "tile": _tile,
        "strided_slice": _slice,
        "concat": _reshape,
    }
)
