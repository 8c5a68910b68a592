"""The conversion of a module's constants to trailing parameters of ``main``: the library does not contain weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.modules import replace_main

THRESHOLD = 1024
"""The size of the largest constant that stays in the code, in bytes: for smaller ones an argument would cost more."""


@dataclass(frozen=True)
class Lifted:
    """A module whose ``main`` takes ``params`` after its inputs; if ``embedded``, the module keeps its constants."""

    mod: tvm.ir.IRModule
    params: tuple[tvm.runtime.Tensor, ...]
    embedded: bool = False


def lift_constants(mod: tvm.ir.IRModule, inputs: int) -> Lifted:
    """Turn constants over 1 KiB into parameters of ``main``, in program order, after its ``inputs`` model inputs.

    If the result is not well formed, because a pass left constants in places where no variable may stand, the unchanged
    module is returned as ``embedded``.
    """
    function = mod["main"]
    lifter = _Lifter(mod)
    body = lifter.visit_expr(function.body)
    lifted = relax.Function([*function.params, *lifter.variables], body, function.ret_ty, function.is_pure)
    lifted = lifted.with_attrs({**dict(function.attrs or {}), "num_input": inputs})
    result = replace_main(mod, lifted)
    if not relax.analysis.check_well_formed(result):
        return Lifted(mod, (), embedded=True)
    return Lifted(result, tuple(lifter.values))


def params_bytes(params: tuple[tvm.runtime.Tensor, ...]) -> bytes:
    """Return the bytes of ``mod.params``, TVM's parameter file.

    The tensors, sorted by name (p00000, p00001, …), are the arguments of ``main`` after the model's inputs.
    """
    return bytes(tvm.runtime.save_param_dict({f"p{index:05d}": value for index, value in enumerate(params)}))


@mutator
class _Lifter(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule) -> None:
        super().__init__(mod)
        self.variables: list[relax.Var] = []
        self.values: list[tvm.runtime.Tensor] = []
        self._seen: dict[tuple[str, tuple[int, ...], bytes], relax.Var] = {}
        """The parameters by content, so that equal constants share one: a weight that two calls share is packed for
        each of them."""

    def visit_generic_const_(self, constant: relax.Expr) -> relax.Expr:
        value = getattr(constant, "value", None)
        if not isinstance(value, tvm.runtime.Tensor):
            return constant
        array = value.numpy()
        if array.nbytes <= THRESHOLD:
            return constant
        key = (str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._seen:
            variable = relax.Var("param", constant.ty)
            self._seen[key] = variable
            self.variables.append(variable)
            self.values.append(value)
        return self._seen[key]
