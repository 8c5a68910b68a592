"""The evaluation of constant expressions when the package is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.codegen.prepare import prepare_compiler
from tvmbuild.compiler.ir.calls import is_call, operator_calls, repacks_weights
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.modules import keep_if_same
from tvmbuild.compiler.ir.rewrite import DROP_ALIASES, TIDY, rewrite_calls, rewrite_main

_RESHAPES = frozenset(f"relax.{name}" for name in ("reshape", "expand_dims", "squeeze", "flatten"))


def decompose_and_fold(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace operators like batch_norm by their inference form, and compute constant expressions."""
    decomposed = relax.transform.CanonicalizeBindings()(relax.transform.DecomposeOpsForInference()(mod))
    return keep_if_same(mod, relax.transform.DeadCodeElimination()(fold_constants(decomposed)))


def fold_constants(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace expressions of constants by their values.

    TVM's FoldConstant compiles and runs a function for each expression, in 20 ms or more. Most expressions only change
    the layout of weights and biases, two for each layer of a convolutional network; NumPy computes these at once.
    """
    prepare_compiler()  # TVM's pass runs the code that it generates
    mover = _Mover(mod)
    moved = rewrite_main(mod, mover, DROP_ALIASES)
    return keep_if_same(mod, relax.transform.FoldConstant()(moved)) if mover.is_left else moved


def repack_weights(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace the calls that repack constant weights by the repacked weights.

    TVM's FoldConstant generates and links a module for each function, in 100 ms (mobilenet_v2: 5.5 of 15 s on a Zen 3);
    here all functions are in one module.
    """
    calls = [call for call in operator_calls(mod, "relax.call_tir") if _repacks(call)]
    if not calls:
        return mod
    names = {call.args[0].name_hint: mod[call.args[0]] for call in calls}
    named = {tvm.ir.GlobalVar(name): each.with_attr("global_symbol", name) for name, each in names.items()}
    prepare_compiler()  # the code runs here
    library = tvm.tirx.build(tvm.ir.IRModule(named), target="llvm")
    return rewrite_calls(mod, lambda _, call: _repack(call, library) if _repacks(call) else None, TIDY)


def _repacks(call: relax.Call) -> bool:
    return (
        is_call(call, "relax.call_tir")
        and repacks_weights(call.args[0].name_hint)
        and all(isinstance(each, tvm.ir.GenericConst) for each in call.args[1].fields)
    )


def _repack(call: relax.Call, library: Any) -> relax.Expr:
    types = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
    outputs = [tvm.runtime.empty([int(size) for size in each.shape.values], str(each.dtype)) for each in types]
    library[call.args[0].name_hint](*(each.value for each in call.args[1].fields), *outputs)
    values = [relax.const(each, str(each.dtype)) for each in outputs]
    return relax.Tuple(values) if isinstance(call.ty, relax.TupleType) else values[0]


@mutator
class _Mover(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule) -> None:
        super().__init__(mod)
        self.is_left = False
        """True if an operator that NumPy does not compute depends only on constants. TVM's pass runs only then: to find
        these operators, it generates the code of all operators."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        arguments = [self._value(argument) for argument in call.args]
        moved = _move(call, arguments)
        if moved is not None:
            return constant(moved)
        self.is_left |= not any(map(self._varies, arguments))
        return self._merge(call)

    def _merge(self, call: relax.Call) -> relax.Expr:
        """Merge a reshape of a reshape into one reshape: FuseOps would fuse the two into a copy."""
        first, shape = resolve(self.lookup_binding, call.args[0]) if call.args else None, static_shape(call)
        if shape is None or first is None or not (_is_reshape(call) and _is_reshape(first)):
            return call
        data = first.args[0]
        return data if static_shape(data) == shape else relax.op.reshape(data, shape)

    def _value(self, expr: relax.Expr) -> relax.Expr:
        """Return the constant that a variable is bound to; else the expression itself."""
        found = resolve(self.lookup_binding, expr)
        return found if isinstance(found, tvm.ir.GenericConst) else expr

    def _varies(self, argument: relax.Expr) -> bool:
        if isinstance(argument, relax.Tuple):
            return any(isinstance(self._value(field), relax.Var) for field in argument.fields)
        return isinstance(argument, relax.Var)


def _is_reshape(expr: relax.Expr | None) -> bool:
    return isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op) and expr.op.name in _RESHAPES


def _move(call: relax.Call, arguments: list[relax.Expr]) -> np.ndarray[Any, Any] | None:
    if not (isinstance(call.op, tvm.ir.Op) and arguments and isinstance(arguments[0], tvm.ir.GenericConst)):
        return None
    value: np.ndarray[Any, Any] = arguments[0].value.numpy()
    if call.op.name in _RESHAPES:
        shape = static_shape(call)
        return None if shape is None else value.reshape(shape)
    if call.op.name == "relax.permute_dims":
        axes = None if call.attrs.axes is None else [int(axis) for axis in call.attrs.axes]
        return np.array(value.transpose(axes), order="C")
    return None
