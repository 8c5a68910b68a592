"""The calls in a module's ``main``."""

from __future__ import annotations

import re
from typing import Any, TypeGuard

import tvm
from tvm import relax

PACKED_CALLS = frozenset({"tirx.tvm_call_packed", "tirx.tvm_call_cpacked"})
"""The TensorIR operators that call a packed function of TVM by its name."""
_REPACKED = re.compile(r"(.+)_prepacked\d*")
"""The name that SplitLayoutRewritePreproc gives to a function whose weights were repacked."""
_REPACKING = re.compile(r".+_prepack\d*")
"""The name that SplitLayoutRewritePreproc gives to a function that repacks weights."""
_RUN = re.compile(r"(?<![^_])([a-z][a-z_]*?)(?:_\1){7,}(?![^_])")
"""A pattern that matches an operator's name repeated eight times or more in a row."""


def operator_calls(mod: tvm.ir.IRModule, prefix: str) -> tuple[relax.Call, ...]:
    """Return the calls in ``main`` of Relax operators whose name starts with ``prefix``, in program order."""
    calls: list[relax.Call] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op) and expr.op.name.startswith(prefix):
            calls.append(expr)

    relax.analysis.post_order_visit(mod["main"], visit)
    return tuple(calls)


def is_call(expr: Any, name: str) -> TypeGuard[relax.Call]:
    """Return whether the expression calls the Relax operator of this full name, for example ``relax.add``."""
    return isinstance(expr, tvm.ir.Call) and expr.op == tvm.ir.Op.get(name)


def is_kernel_call(expr: Any) -> TypeGuard[relax.Call]:
    """Return whether the expression calls a function of the module, as kernels are called after CallTIRRewrite."""
    return isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.GlobalVar)


def operator_name(call: relax.Call) -> str:
    """Return the name of the called Relax operator, without ``relax.``."""
    return str(call.op.name).removeprefix("relax.")


def called_functions(mod: tvm.ir.IRModule) -> tuple[tvm.ir.GlobalVar, ...]:
    """Return the global variable of the called function for each ``call_tir`` in ``main``, in program order."""
    return tuple(call.args[0] for call in operator_calls(mod, "relax.call_tir"))


def name_before_repacking(function: str) -> str:
    """Return the name of the function whose weights the function takes in another layout, or else its own name."""
    repacked = _REPACKED.fullmatch(function)
    return repacked[1] if repacked else function


def repacks_weights(function: str) -> bool:
    """Return whether the function of this name repacks weights for another function."""
    return _REPACKING.fullmatch(function) is not None


def display_name(function: str) -> str:
    """Return the fused function's name without ``fused_`` and without the numbers that make it unique.

    An operator that is repeated eight times or more in a row is written once with its count: ``add_x44_multiply``.
    """
    name = re.sub(r"\d+(?=_|$)", "", function.removeprefix("fused_"))
    return _RUN.sub(lambda run: f"{run[1]}_x{(len(run[0]) + 1) // (len(run[1]) + 1)}", name)
