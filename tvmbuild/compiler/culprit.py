"""The search for the operator that TVM cannot build: one operator at a time, after the whole module has failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import relax, tirx

from tvmbuild.compiler.ir.calls import display_name
from tvmbuild.errors import TvmbuildError

TVM_ERRORS = (tvm.error.InternalError, ValueError, TypeError, RuntimeError, KeyError, AttributeError, IndexError)
"""The errors that TVM raises for an operator with unforeseen types, shapes or attributes."""
_HINT = "rewrite or replace this operator in the model"


@contextmanager
def name_culprit(mod: tvm.ir.IRModule, build: Callable[[tvm.ir.IRModule], Any]) -> Iterator[None]:
    """Turn a TVM error in the block into a TvmbuildError that names the operator on which ``build`` fails.

    An operator alone may fail for another reason, for example because a pass does not expect so small a module. So it
    is named only if it fails for the same reason as the whole module.
    """
    try:
        yield
    except TvmbuildError:
        raise
    except TVM_ERRORS as error:
        for name, part in _take_apart(mod):
            found = _find_error(part, build)
            if found and _explain(found) == _explain(error):
                reason, hint = _read(found)
                raise TvmbuildError(f"TVM cannot build the operator {name}: {reason}", hint) from error
        reason, hint = _read(error)
        raise TvmbuildError(f"TVM cannot build the model: {reason}", hint) from error


def _find_error(mod: tvm.ir.IRModule, build: Callable[[tvm.ir.IRModule], Any]) -> Exception | None:
    try:
        build(mod)
    except TVM_ERRORS as error:
        return error
    return None


def _explain(error: Exception) -> tuple[type[Exception], str, str]:
    """Return the kind of an error and its reason without numbers, in which a part may differ from the whole."""
    reason, hint = _read(error)
    return type(error), "" if hint != _HINT else re.sub(r"\d+", "0", reason), hint


def _read(error: Exception) -> tuple[str, str]:
    """Return the error's reason and hint; TVM turns a TvmbuildError of our code generator into text that has both."""
    *_, reason, last = ["", "", *filter(None, map(str.strip, str(error).splitlines()))]
    if last.startswith("hint: "):
        return reason, last.removeprefix("hint: ")
    return summarize(error), _HINT


def summarize(error: Exception) -> str:
    """Return the error's type and the last line of its message, which is the reason; TVM's stack is above that line."""
    lines = [line.strip() for line in str(error).splitlines() if any(map(str.isalnum, line))]
    return f"{type(error).__name__}: {lines[-1][:200]}" if lines else type(error).__name__


def _take_apart(mod: tvm.ir.IRModule) -> Iterator[tuple[str, tvm.ir.IRModule]]:
    """Yield (name, module) for each single TensorIR function, and for each distinct operator call in ``main``."""
    for variable, function in mod.functions.items():
        if isinstance(function, tirx.PrimFunc):
            alone = function.with_attr("global_symbol", "main")
            yield display_name(variable.name_hint), tvm.ir.IRModule({"main": alone})
    seen = set()
    for binding in (each for block in mod["main"].body.blocks for each in block.bindings):
        call = binding.value
        if not (isinstance(call, tvm.ir.Call) and isinstance(call.op, tvm.ir.Op)) or call.op.name == "relax.call_tir":
            continue
        key = (call.op.name, str(call.attrs), *(str(argument.ty) for argument in call.args))
        if key not in seen:
            seen.add(key)
            yield call.op.name.removeprefix("relax."), _of_call(call)


def _of_call(call: relax.Call) -> tvm.ir.IRModule:
    """Return a module whose ``main`` is the call; all variables in its arguments, also those in tuples, are inputs."""
    inputs: dict[relax.Var, relax.Var] = {}

    def rename(value: relax.Expr) -> relax.Expr:
        if isinstance(value, relax.Tuple):
            return relax.Tuple([rename(each) for each in value.fields])
        if not isinstance(value, relax.Var):
            return value
        return inputs.setdefault(value, relax.Var(f"x{len(inputs)}", value.ty))

    arguments = [rename(each) for each in call.args]
    builder = relax.BlockBuilder()
    with builder.function("main", list(inputs.values())):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(call.op, arguments, call.attrs, call.ty_args))
        builder.emit_func_output(result)
    return builder.get()
