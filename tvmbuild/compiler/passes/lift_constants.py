"""The conversion of a module's constants to trailing parameters of ``main``: the library does not contain weights."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.package.weights import align_weights

THRESHOLD = 1024
"""The size of the largest constant that stays in the code, in bytes: for smaller ones an argument would cost more."""


@dataclass(frozen=True)
class Lifted:
    """A module whose ``main`` takes ``params`` after its inputs; if ``embedded``, the module keeps its constants."""

    mod: tvm.ir.IRModule
    params: tuple[tvm.runtime.Tensor, ...]
    embedded: bool = False

    @property
    def bytes(self) -> int:
        """Return the size of all parameters."""
        return sum(math.prod(each.shape) * each.dtype.bits // 8 for each in self.params)


def lift_constants(mod: tvm.ir.IRModule) -> Lifted:
    """Turn constants over 1 KiB into parameters, in program order: of ``main`` first, then of the other functions.

    Every Relax function takes all of them after its own parameters. If the result is not well formed, because a pass
    left constants in places where no variable may stand, the unchanged module is returned as ``embedded``.
    """
    own = {each: function for each, function in mod.functions.items() if isinstance(function, relax.Function)}
    names = sorted(own, key=lambda each: (each.name_hint != "main", each.name_hint))
    constants = _Constants()
    for name in names:
        constants.collect(own[name])
    result = tvm.ir.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    for name in names:
        function = own[name]
        lifter = _Lifter(mod, constants)
        body = lifter.visit_expr(function.body)
        lifted = relax.Function([*function.params, *lifter.variables], body, function.ret_ty, function.is_pure)
        lifted = lifted.with_attrs({**dict(function.attrs or {}), "num_input": len(function.params)})
        result.update_func(result.get_global_var(name.name_hint), lifted)
    if not relax.analysis.check_well_formed(result):
        return Lifted(mod, (), embedded=True)
    return Lifted(result, tuple(constants.values.values()))


def params_bytes(params: tuple[tvm.runtime.Tensor, ...]) -> bytes:
    """Return the bytes of ``mod.params``, TVM's parameter file with aligned tensors (`package.weights`).

    The tensors, sorted by name (p00000, p00001, …), are the arguments of ``main`` after the model's inputs.
    """
    return align_weights(
        bytes(tvm.runtime.save_param_dict({f"p{index:05d}": value for index, value in enumerate(params)}))
    )


Key = tuple[str, tuple[int, ...], bytes]


class _Constants:
    """The constants over the threshold by content, so that equal constants share a parameter.

    A weight that two calls share is packed for each of them.
    """

    def __init__(self) -> None:
        self.values: dict[Key, tvm.runtime.Tensor] = {}
        self.types: dict[Key, relax.TensorType] = {}
        self.keys: dict[relax.Expr, Key] = {}
        """The content of each constant, because a digest of large weights takes long."""

    def collect(self, function: relax.Function) -> None:
        """Add the constants of a function."""
        relax.analysis.post_order_visit(function.body, self._add)

    def _add(self, expr: relax.Expr) -> None:
        key = None if expr in self.keys else _find_key(expr)
        if key is None:
            return
        self.keys[expr] = key
        if key not in self.values:
            self.values[key] = expr.value
            self.types[key] = expr.ty


def _find_key(constant: relax.Expr) -> Key | None:
    """Return the content of a constant over the threshold, or None for any other expression."""
    value = getattr(constant, "value", None)
    if not isinstance(value, tvm.runtime.Tensor):
        return None
    array = value.numpy()
    if array.nbytes <= THRESHOLD:
        return None
    return (str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).digest())


@mutator
class _Lifter(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, constants: _Constants) -> None:
        super().__init__(mod)
        self._keys = constants.keys
        self._of = {key: relax.Var("param", each) for key, each in constants.types.items()}

    @property
    def variables(self) -> list[relax.Var]:
        """The parameters, one for each constant."""
        return list(self._of.values())

    def visit_generic_const_(self, constant: relax.Expr) -> relax.Expr:
        key = self._keys.get(constant)
        return constant if key is None else self._of[key]
