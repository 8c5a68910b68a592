"""A pass that puts independent kernels next to each other, because Vulkan needs no barrier between them.

A barrier takes longer than many kernels, and the kernels between two barriers run side by side. The calls of a
function are therefore sorted by level (list scheduling): a call's level is one more than the highest level that it
reads, and there are as many barriers as levels.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call, is_kernel_call
from tvmbuild.compiler.ir.modules import map_relax_functions, replace_bindings

_ALLOCATION = "relax.builtin.alloc_tensor"
_VIEWS = ("relax.reshape", "relax.memory.view")
_FIRST, _THEN, _LAST = range(3)
"""The parts of a level, in order: allocations of its kernels' output tensors, the kernels, views of these tensors."""


def group_independent_kernels(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Sort the calls of each Relax function by level, when allocations are explicit and memory is not planned yet.

    The outputs of a level are allocated before its first kernel, so that none of them takes the memory that another
    kernel of the level still reads. A function with anything other than kernels, tensors and views of tensors stays as
    it is.
    """
    return map_relax_functions(mod, _sort_calls)


def _sort_calls(function: relax.Function) -> relax.Function | None:
    bindings = [each for block in function.body.blocks for each in block.bindings]
    levels = _Levels()
    if not all(levels.take(each) for each in bindings):
        return None
    return replace_bindings(function, sorted(bindings, key=lambda each: levels.places[each.var]), function.body.body)


class _Levels:
    def __init__(self) -> None:
        self.places: dict[relax.Var, tuple[int, int]] = {}
        """The place of each binding, by its variable: the level, and the part of the level."""
        self._unwritten: set[relax.Var] = set()

    def take(self, binding: relax.Binding) -> bool:
        """Store the binding's place; return False if the binding's form is unknown."""
        if not isinstance(binding, relax.VarBinding):
            return False
        var, value = binding.var, binding.value
        if is_call(value, _ALLOCATION):
            self._unwritten.add(var)
            self.places[var] = (0, _FIRST)
        elif is_kernel_call(value):
            level = 1 + self._highest(value.args)
            self.places[var] = (level, _THEN)
            written = self._unwritten.intersection(each for each in value.args if isinstance(each, relax.Var))
            self.places |= dict.fromkeys(written, (level, _FIRST))
            self._unwritten -= written
        elif isinstance(value, relax.Var | relax.Tuple | relax.TupleGetItem | tvm.ir.GenericConst) or any(
            is_call(value, name) for name in _VIEWS
        ):
            self.places[var] = (self._highest([value]), _LAST)
        else:
            return False
        return True

    def _highest(self, values: Sequence[relax.Expr]) -> int:
        """Return the highest level of the variables in the expressions; parameters and constants have level 0."""
        found = [0]
        for value in values:
            relax.analysis.post_order_visit(value, lambda each: found.append(self.places.get(each, (0, 0))[0]))
        return max(found)
