"""A check that code calls by name only functions of TVM's runtime, because a package has nothing else of TVM."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from tvmbuild.compiler.ir.calls import PACKED_CALLS, display_name
from tvmbuild.errors import TvmbuildError

_BESIDE_THE_RUNTIME = "tvm.contrib."


def check_runtime_calls(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return the module. Raises TvmbuildError, naming the operator, if code calls a function that packages lack."""
    for variable, function in mod.functions.items():
        for name in _called(function) if isinstance(function, tirx.PrimFunc) else ():
            if name.startswith(_BESIDE_THE_RUNTIME):
                raise TvmbuildError(
                    f"TVM's code for the operator {display_name(variable.name_hint)} calls {name}, which lies outside "
                    "the runtime that packages have",
                    "rewrite or replace this operator in the model",
                )
    return mod


def _called(function: tirx.PrimFunc) -> list[str]:
    names: list[str] = []

    def note(call: tvm.ir.Call) -> None:
        if isinstance(call.op, tvm.ir.Op) and call.op.name in PACKED_CALLS:
            names.append(str(call.args[0].value))

    tvm_ffi.structural_walk(function.body, [(tvm.ir.Call, note)])
    return names
