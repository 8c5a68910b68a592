"""The record that LowerQdqToInt8 keeps of the integers behind each value of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.def_use import find_origin, resolve
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.passes.int8.quant_params import (
    Accumulator,
    ByChannel,
    Joined,
    Quantised,
    QuantizedConstant,
    dequantise,
)

Tracked = Quantised | ByChannel | QuantizedConstant | Accumulator | Joined


class Ledger:
    """The known integers behind each variable; an alias stands for the variable that was bound first."""

    def __init__(self, rewriter: PyExprMutator, *, wants_signed: bool, is_plain: bool) -> None:
        self.rewriter = rewriter
        self.is_plain = is_plain
        """True if the target has no dot instruction; operators with better tiles in floats then stay in floats."""
        self.wants_signed = wants_signed
        """True if products and dense convolutions take their data as int8."""
        self.unsigned: dict[relax.Var, relax.Expr] = {}
        """A tensor of int8 → the same integers plus UNSIGNED, as uint8."""
        self.signed: dict[relax.Expr, relax.Expr] = {}
        """A tensor of uint8 → the same integers minus UNSIGNED, as int8."""
        self.by_channel: dict[relax.Var, tuple[relax.Call, ByChannel]] = {}
        """A tensor that was rounded with a scale for each channel → the quantisation and the integers."""
        self._tracked: dict[relax.Var, Tracked] = {}

    def emit(self, expr: relax.Expr) -> relax.Expr:
        """Bind the expression to a new variable."""
        return self.rewriter.builder_.emit(expr)

    def find_origin(self, expr: relax.Expr) -> relax.Expr:
        """Follow variable-to-variable bindings to the original variable."""
        return find_origin(self.rewriter.lookup_binding, expr)

    def find(self, expr: relax.Expr) -> Tracked | None:
        """Return the known integers behind the expression, or None if none are known."""
        origin = self.find_origin(expr)
        return self._tracked.get(origin) if isinstance(origin, relax.Var) else None

    def track(self, expr: relax.Expr, tracked: Tracked) -> relax.Expr:
        """Bind the expression to a new variable, note the integers behind it, and return the variable."""
        variable = self.emit(expr)
        self._tracked[variable] = tracked
        return variable

    def restore(self, made: Quantised | ByChannel) -> relax.Expr:
        """Return the dequantised integers, and note that these integers are behind the result."""
        return self.track(dequantise(self.emit, made), made)

    def read_number(self, expr: relax.Expr) -> np.ndarray[Any, Any] | None:
        """Return the values of a float32 constant, which may be dequantised, or None for other expressions."""
        found = self.find(expr)
        if isinstance(found, QuantizedConstant):
            return found.numbers
        value = self.read_constant(expr)
        return value if value is not None and value.dtype == np.float32 else None

    def read_constant(self, expr: relax.Expr) -> np.ndarray[Any, Any] | None:
        """Return the value of a constant or of a reshaped constant (a bias, for example), or None."""
        value = resolve(self.rewriter.lookup_binding, expr)
        if is_call(value, "relax.reshape") and (shape := static_shape(value)) is not None:
            before = self.read_constant(value.args[0])
            return None if before is None else before.reshape(shape)
        return value.value.numpy() if isinstance(value, tvm.ir.GenericConst) else None


Rule = Callable[[Ledger, relax.Call], relax.Expr | None]
"""A rule that returns a replacement for a call, or None to keep it."""
