"""What code calls by name while it runs: a package has TVM's runtime alone, without the libraries beside it."""

from __future__ import annotations

import re

import tvm
from tvm import tirx

from tvmbuild.compiler.calls import display_name
from tvmbuild.errors import TvmbuildError

_BESIDE_THE_RUNTIME = re.compile(r'"(tvm\.contrib\.[\w.]+)"')


def check_runtime_calls(mod: tvm.ir.IRModule) -> None:
    """Raise TvmbuildError naming the operator of a lowered module whose code calls what no package can find."""
    for variable, function in mod.functions.items():
        found = _BESIDE_THE_RUNTIME.search(function.script()) if isinstance(function, tirx.PrimFunc) else None
        if found:
            raise TvmbuildError(
                f"TVM's code for the operator {display_name(variable.name_hint)} calls {found[1]}, which lies outside "
                "the runtime that packages have",
                "rewrite or replace this operator in the model",
            )
