"""The memory that a call takes beside weights and inputs, from the static plan."""

from __future__ import annotations

from collections import Counter

import tvm
from tvm import relax

PAGE = 4096
"""TVM's allocator rounds each size up to pages."""


def find_workspace(mod: tvm.ir.IRModule) -> int:
    """Return the bytes that the largest function of a lowered module allocates in one call, its outputs included.

    TVM keeps what a call frees, and gives it to later allocations of the same size only. So the sum of the sizes that
    exist at once, of each size, is what stays allocated after the first call, and not the peak of all sizes together.
    Memory that a kernel allocates itself is not in it.
    """
    functions = [each for each in mod.functions.values() if isinstance(each, relax.Function)]
    return max((_find_peaks(each) for each in functions), default=0)


def _find_peaks(function: relax.Function) -> int:
    """Return the sum over all sizes of the most bytes of that size that exist at once."""
    users: Counter[relax.Var] = Counter()
    origins: dict[relax.Var, relax.Var] = {}
    sizes: dict[relax.Var, int] = {}
    now: Counter[int] = Counter()
    most: Counter[int] = Counter()
    for block in function.body.blocks:
        for binding in block.bindings:
            value, var = binding.value, binding.var
            name = value.op.name if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op) else ""
            if name.endswith("alloc_storage"):
                sizes[var] = -(-_read_size(value) // PAGE) * PAGE
                origins[var] = var
                users[var] = 1
                now[sizes[var]] += sizes[var]
                most[sizes[var]] = max(most[sizes[var]], now[sizes[var]])
            elif name.endswith("alloc_tensor") and value.args[0] in origins:
                origins[var] = origins[value.args[0]]
                users[origins[var]] += 1
            elif name.endswith("kill_object") and value.args[0] in origins:
                storage = origins[value.args[0]]
                users[storage] -= 1
                if users[storage] == 0:
                    now[sizes[storage]] -= sizes[storage]
    return sum(most.values())


def _read_size(call: relax.Call) -> int:
    shape = call.args[0]
    size = shape.values[0] if isinstance(shape, relax.ShapeExpr) else shape.value
    return int(size)
