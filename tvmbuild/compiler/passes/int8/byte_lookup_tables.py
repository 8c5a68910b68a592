"""Lookup tables of 256 entries in place of elementwise operators on bytes, from a dequantisation to a quantisation.

NumPy computes the entries when the package is built, operator by operator, in the operators' types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import operator_name
from tvmbuild.compiler.ir.def_use import find_origin
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.rewrite import TIDY, rewrite_main
from tvmbuild.compiler.kernels.int8.lookup import ENTRIES, Lookup, find_lookup, write_lookup
from tvmbuild.compiler.machine.machine import Machine, describe_machine
from tvmbuild.compiler.remarks import missed

Values = np.ndarray[Any, Any]
_BYTES = frozenset({"uint8", "int8"})


def use_byte_lookup_tables(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Replace elementwise operators on bytes by lookup tables if the target looks up faster than it computes."""
    lookup = find_lookup(target)
    if lookup is None:
        return mod
    return rewrite_main(mod, _ByteLookupTables(mod, lookup, describe_machine(target)), TIDY)


@dataclass(frozen=True)
class _OfByte:
    """The values of a tensor for the bytes 0, 1, 2 and so on of another tensor."""

    byte: relax.Var
    values: Values
    has_been_float: bool = False
    """True if the values, or values that they are computed from, are floats: integers alone are not worth a table."""


@mutator
class _ByteLookupTables(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, lookup: Lookup, machine: Machine) -> None:
        super().__init__(mod)
        self._lookup, self._machine = lookup, machine
        self._tracked: dict[relax.Var, _OfByte] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        compute = _OPERATORS.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        found = None if compute is None else self._follow(call, compute)
        if found is None:
            return call
        is_table = (
            found.has_been_float and str(call.ty.dtype) in _BYTES and static_shape(call) == static_shape(found.byte)
        )
        made = self.builder_.emit(self._look_up(call, found) if is_table else call)
        self._tracked[made] = found
        return made

    def _follow(self, call: relax.Call, compute: Callable[..., Values]) -> _OfByte | None:
        """Return the call's result for each value of a byte, or None if it depends on more than one tensor of bytes."""
        found = [self._find(argument) for argument in call.args]
        origins = {each.byte for each in found if each is not None}
        if len(origins) > 1:
            return missed(f"{operator_name(call)} is of several tensors of bytes")
        if not origins:
            return None
        arguments = [
            _read_scalar(argument) if each is None else each.values
            for argument, each in zip(call.args, found, strict=True)
        ]
        if any(each is None for each in arguments):
            return missed(f"{operator_name(call)} is of bytes and of a value that is not one constant number")
        with np.errstate(all="ignore"):  # some bytes may occur in no tensor
            values = compute(*arguments, **_read_type(call))
        if str(values.dtype) != str(call.ty.dtype):  # NumPy divides integers in another type
            return missed(f"{operator_name(call)} gives {call.ty.dtype}, in NumPy {values.dtype}")
        has_been_float = values.dtype.kind == "f" or any(each is not None and each.has_been_float for each in found)
        return _OfByte(origins.pop(), values, has_been_float)

    def _find(self, expr: relax.Expr) -> _OfByte | None:
        origin = find_origin(self.lookup_binding, expr)
        if not isinstance(origin, relax.Var):
            return None
        if origin not in self._tracked and self._is_worth_a_table(origin):
            return _OfByte(origin, np.arange(ENTRIES, dtype=np.uint8).view(str(origin.ty.dtype)))
        return self._tracked.get(origin)

    def _is_worth_a_table(self, data: relax.Var) -> bool:
        shape = static_shape(data)
        return shape is not None and str(data.ty.dtype) in _BYTES and math.prod(shape) >= self._lookup.lanes

    def _look_up(self, call: relax.Call, found: _OfByte) -> relax.Expr:
        types = (str(found.byte.ty.dtype), str(call.ty.dtype))
        function = write_lookup(static_shape(call) or (), types, self._lookup, self._machine)
        variable = self.builder_.add_func(function, "lookup")
        return relax.call_tir(variable, [found.byte, constant(found.values.view(np.uint8))], call.ty)


def _read_scalar(expr: relax.Expr) -> Values | None:
    if isinstance(expr, tvm.ir.GenericConst):
        value = expr.value.numpy()
        return value if value.ndim == 0 else None
    number = getattr(expr, "value", None)
    return None if number is None else np.asarray(number)


def _read_type(call: relax.Call) -> dict[str, str]:
    return {"dtype": str(call.ty.dtype)} if call.op.name == "relax.astype" else {}


def _sigmoid(x: Values) -> Values:
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def _clip(x: Values, low: Values, high: Values) -> Values:
    return np.clip(x, low.astype(x.dtype), high.astype(x.dtype))


_OPERATORS: Mapping[str, Callable[..., Values]] = MappingProxyType(
    {
        "relax.astype": lambda x, dtype: x.astype(dtype),
        "relax.add": np.add,
        "relax.subtract": np.subtract,
        "relax.multiply": np.multiply,
        "relax.divide": np.divide,
        "relax.maximum": np.maximum,
        "relax.minimum": np.minimum,
        "relax.clip": _clip,
        "relax.round": np.rint,
        "relax.negative": np.negative,
        "relax.abs": np.abs,
        "relax.exp": np.exp,
        "relax.tanh": np.tanh,
        "relax.sigmoid": _sigmoid,
        "relax.nn.silu": lambda x: x * _sigmoid(x),
        "relax.nn.relu": lambda x: np.maximum(x, x.dtype.type(0)),
    }
)
"""An elementwise operator that a table can replace → the NumPy function that computes it."""
