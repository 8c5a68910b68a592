"""Residual sums moved before the reshape of the product that they follow.

If a network computes one picture or sentence, its matrix products have two axes, and its other tensors have three. The
reshape between a product and the sum after it would make the sum a separate pass.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.def_use import Lookup, resolve
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_calls
from tvmbuild.compiler.remarks import missed

_BEFORE = ("relax.add", "relax.subtract", "relax.multiply", "relax.divide")
"""The operators with a constant that may stand between a product and its reshape: a bias, a scale."""


def join_residuals(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Move residual sums before the reshape of their product; a module without products stays as it is."""
    if not operator_calls(mod, "relax.matmul"):
        return mod
    return rewrite_calls(mod, _join, DROP_UNUSED)


def _join(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    if not is_call(call, "relax.add"):
        return None
    shape, lookup, why = static_shape(call), builder.lookup_binding, ""
    for place, argument in enumerate(call.args):
        if not _is_reshaped_product(lookup, argument):
            continue
        product, other = _find_reshaped(lookup, argument, shape), call.args[1 - place]
        if product is None:
            why = why or "the reshape before the sum does more than put axes of one element in front"
            continue
        if static_shape(other) != shape:
            why = why or "what is added to the product spreads over it"
            continue
        flat = _find_reshaped(lookup, other, shape)
        flat = builder.emit(relax.op.reshape(other, static_shape(product))) if flat is None else flat
        operands = (product, flat) if place == 0 else (flat, product)
        return relax.op.reshape(builder.emit(relax.op.add(*operands)), shape)
    return missed(why) if why else None


def _is_reshaped_product(lookup: Lookup, expr: relax.Expr) -> bool:
    value = resolve(lookup, expr)
    return is_call(value, "relax.reshape") and _is_of_product(lookup, value.args[0])


def _find_reshaped(lookup: Lookup, expr: relax.Expr, shape: tuple[int, ...] | None) -> relax.Expr | None:
    """Return the tensor to which ``expr`` adds leading axes of length 1 by a reshape, or None for other expressions."""
    value = resolve(lookup, expr)
    if shape is None or not is_call(value, "relax.reshape"):
        return None
    own = static_shape(value.args[0])
    more = len(shape) - len(own or shape)
    return value.args[0] if more > 0 and shape == (*[1] * more, *(own or ())) else None


def _is_of_product(lookup: Lookup, expr: relax.Expr) -> bool:
    """Return whether ``expr`` is a product with a constant matrix, possibly followed by operators with a constant."""
    value = resolve(lookup, expr)
    while any(is_call(value, name) for name in _BEFORE):
        left = [each for each in value.args if not isinstance(resolve(lookup, each), tvm.ir.GenericConst)]
        if len(left) != 1:
            return False
        value = resolve(lookup, left[0])
    return is_call(value, "relax.matmul") and isinstance(resolve(lookup, value.args[1]), tvm.ir.GenericConst)
