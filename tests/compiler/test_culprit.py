"""The operator that an error names is one that fails alone for the same reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relax, te

from tvmbuild.compiler.culprit import name_culprit
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
Build = Callable[[tvm.ir.IRModule], Any]


def make_net() -> tvm.ir.IRModule:
    """Return a kernel, a concatenation and a sigmoid."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_te(lambda data: te.compute(data.shape, lambda at: data[at] + 1.0, "kernel"), x)
            w = builder.emit_output(relax.op.sigmoid(builder.emit(relax.op.concat((x, y), axis=0))))
        builder.emit_func_output(w)
    return builder.get()


NET = make_net()


def refuse(build: Build) -> str:
    with pytest.raises(TvmbuildError) as caught, name_culprit(NET, build):
        build(NET)
    return str(caught.value.message)


def fail_at(operator: str) -> Build:
    """Return a build that fails for modules with an operator."""

    def build(mod: tvm.ir.IRModule) -> None:
        if operator in str(mod):
            raise ValueError(f"{operator} with {len(mod.functions)} functions cannot be built")

    return build


@pytest.mark.parametrize("operator", ["concat", "sigmoid"])
def test_the_operator_that_fails_alone_is_named(operator: str) -> None:
    told = refuse(fail_at(f"R.{operator}("))
    assert told.startswith(f"TVM cannot build the operator {operator}: ValueError: R.{operator}(")


def test_a_pass_that_fails_does_not_blame_an_operator() -> None:
    def build(mod: tvm.ir.IRModule) -> None:
        if not isinstance(mod["main"], relax.Function):
            raise TypeError("a kernel alone has no body.blocks")
        if len(mod["main"].body.blocks[0].bindings) == 1:
            raise ValueError("this pass expects more operators")
        raise ValueError("this pass is broken")

    assert refuse(build) == "TVM cannot build the model: ValueError: this pass is broken"


def test_operators_alone_are_well_formed() -> None:
    seen = []

    def build(mod: tvm.ir.IRModule) -> None:
        seen.append(mod)
        raise ValueError(str(len(seen) == 1))

    assert refuse(build) == "TVM cannot build the model: ValueError: True"
    assert len(seen) == 4
    for mod in seen:
        relax.analysis.well_formed(mod)  # raises if it is not
