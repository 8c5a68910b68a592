"""Rules for operators that only move or join elements: they are applied to the integers instead of the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm import relax

from tvmbuild.compiler.ir.calls import operator_name
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.passes.int8.ledger import Ledger, Rule
from tvmbuild.compiler.passes.int8.quant_params import Joined, Quantised, QuantizedConstant
from tvmbuild.compiler.remarks import missed


def _move(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    """Apply the operator to the integers instead of the dequantised numbers."""
    found = ledger.find(call.args[0])
    if isinstance(found, QuantizedConstant):
        return _move_known(ledger, call, found)
    if not isinstance(found, Quantised):
        return None
    moved = ledger.emit(relax.Call(call.op, [found.value, *call.args[1:]], call.attrs))
    return ledger.restore(replace(found, value=moved))


def _move_known(ledger: Ledger, call: relax.Call, found: QuantizedConstant) -> relax.Expr | None:
    if call.op.name == "relax.permute_dims":
        rank = found.values.ndim
        axes = tuple(int(axis) % rank for axis in call.attrs.axes or range(rank)[::-1])
        return ledger.track(call, found.transpose(axes))
    shape = static_shape(call)
    if call.op.name == "relax.reshape" and shape is not None and (found.values.ndim == 1 or not found.is_per_axis):
        if not found.is_per_axis:
            return ledger.track(call, replace(found, values=found.values.reshape(shape), axis=0))
        if shape.count(found.values.size) == 1:
            axis = shape.index(found.values.size)
            return ledger.track(call, replace(found, values=found.values.reshape(shape), axis=axis))
    return missed(f"{operator_name(call)} moves the axis along which weights have their scales")


def _concat(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    parts = resolve(ledger.rewriter.lookup_binding, call.args[0])
    if not isinstance(parts, relax.Tuple):
        return None
    found = [each for part in parts.fields if isinstance(each := ledger.find(part), Quantised)]
    if len(found) < len(parts.fields) or not all(each.has_steps_of(found[0]) for each in found):
        return ledger.track(call, Joined(tuple(parts.fields), int(call.attrs.axis)))
    joined = ledger.emit(relax.op.concat([each.value for each in found], call.attrs.axis))
    return ledger.restore(replace(found[0], value=joined))


def _split(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    found = ledger.find(call.args[0])
    if not isinstance(found, Quantised):
        return None
    apart = ledger.emit(relax.Call(call.op, [found.value], call.attrs))
    return ledger.track(call, replace(found, value=apart))


def pick(ledger: Ledger, item: relax.TupleGetItem) -> relax.Expr:
    """Return a part of a split tensor with its integers noted; return any other item unchanged."""
    found = ledger.find(item.tuple_value)
    if not isinstance(found, Quantised):
        return item
    return ledger.restore(replace(found, value=ledger.emit(relax.TupleGetItem(found.value, item.index))))


RULES: Mapping[str, Rule] = {
    "relax.concat": _concat,
    "relax.split": _split,
    **dict.fromkeys(
        (
            *("relax.reshape", "relax.permute_dims", "relax.squeeze", "relax.expand_dims", "relax.flatten"),
            *("relax.strided_slice", "relax.nn.max_pool2d"),
        ),
        _move,
    ),
}
