"""The operations and bytes of each function that ``main`` calls; the package keeps them for profiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm.s_tir.analysis import estimate_tir_flops

from tvmbuild.compiler.apply import Coverage
from tvmbuild.compiler.ir.calls import PACKED_CALLS, called_functions, display_name, name_before_repacking
from tvmbuild.compiler.ir.prim_funcs import LLVM_CALL, has_plain_loops
from tvmbuild.compiler.tasks import normalised, task_key
from tvmbuild.package.operator_info import OperatorInfo

_ESTIMATED = "estimated_flops"
_FEW = 0.01
_FOREIGN = PACKED_CALLS | {
    "tirx.call_extern",
    "tirx.call_pure_extern",
    LLVM_CALL,
    "tirx.tvm_call_packed_lowered",
    "tirx.tvm_call_cpacked_lowered",
}
"""Operators that call functions of other libraries; their arithmetic is unknown."""


def describe_operators(before: tvm.ir.IRModule, after: tvm.ir.IRModule, coverage: Coverage) -> tuple[OperatorInfo, ...]:
    """Describe the functions that ``after`` calls, sorted by name; ``after`` is ``before`` with records applied.

    Operations and bytes are counted in ``before``: a schedule may add work that the operator itself does not need.
    """
    covered = coverage.covered
    origins = {variable.name_hint: before[variable] for variable in called_functions(before)}
    found: dict[str, OperatorInfo] = {}
    for function in sorted({variable.name_hint for variable in called_functions(after)}):
        name = function if function in origins else name_before_repacking(function)
        if name not in origins:
            continue
        key = task_key(normalised(origins[name]))
        flops, moved = count_flops(origins[name]), count_bytes(origins[name])
        found[function] = OperatorInfo(function, display_name(name), key, flops, moved, key in covered)
    return tuple(found.values())


def list_plain_loops(after: tvm.ir.IRModule, operators: Sequence[OperatorInfo]) -> tuple[str, ...]:
    """Describe the operators with a reduction that a rule left as a plain loop, those with most operations first.

    Operators with at most 1% of the module's operations are left out.
    """
    calls = Counter(variable.name_hint for variable in called_functions(after))
    flops = {each.function: (each.flops or 0) * calls[each.function] for each in operators}
    slow: Counter[str] = Counter()
    for each in operators:
        if has_plain_loops(after[each.function]):
            slow[each.name] += flops[each.function]
    whole = sum(flops.values())
    return tuple(f"{name} ({describe_share(part, whole)})" for name, part in slow.most_common() if part > _FEW * whole)


def describe_share(part: int, whole: int) -> str:
    """Describe the share of ``part`` in ``whole`` operations, as a percentage."""
    return f"{part / whole:.1%} of the operations" if whole else "no known operations"


def count_flops(function: tvm.tirx.PrimFunc) -> int | None:
    """Return the number of additions, multiplications, divisions, minima and maxima of one call, in any dtype.

    Index arithmetic and functions like exp do not count. Return None if a loop's length depends on the data, or if the
    work is done by a function that TVM did not generate, for example a sort or a library function. A kernel of this
    project may give its own number in TVM's attribute `estimated_flops`.
    """
    if function.attrs is not None and _ESTIMATED in function.attrs:
        return int(function.attrs[_ESTIMATED])
    unknown: list[object] = []

    def note_loop(loop: tvm.tirx.For | tvm.tirx.While) -> None:
        if isinstance(loop, tvm.tirx.While) or not isinstance(loop.extent, tvm.tirx.IntImm):
            unknown.append(loop)

    def note_call(call: tvm.ir.Call) -> None:
        if isinstance(call.op, tvm.ir.Op) and call.op.name in _FOREIGN:
            unknown.append(call)

    tvm_ffi.structural_walk(function.body, [((tvm.tirx.For, tvm.tirx.While), note_loop), (tvm.ir.Call, note_call)])
    return None if unknown else round(estimate_tir_flops(tvm.ir.IRModule({"main": function})))


def count_bytes(function: tvm.tirx.PrimFunc) -> int | None:
    """Return the bytes of the arguments that one call reads or writes, each counted once, or None for dynamic shapes.

    If a block's runs access fewer elements than the buffer has (a slice, a gather), only these elements count.
    """
    touched: dict[tvm.tirx.Var, int] = {}

    def note_block(block: tvm.s_tir.SBlock) -> None:
        runs = _product([each.dom.extent for each in block.iter_vars])
        for region in (*block.reads, *block.writes):
            elements = _product([each.extent for each in region.region])
            if runs is not None and elements is not None:
                touched[region.source] = max(touched.get(region.source, 0), runs * elements)

    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, note_block))
    total = 0
    for parameter in function.params:
        if not tvm.tirx.is_buffer_var(parameter):
            continue
        elements = _product(parameter.ty.shape)
        if elements is None:
            return None
        total += min(elements, touched.get(parameter, elements)) * _item_bytes(str(parameter.ty.dtype))
    return total


def _product(extents: list[tvm.ir.Expr]) -> int | None:
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
        return None
    return math.prod(int(extent) for extent in extents)


def _item_bytes(dtype: str) -> int:
    kind = tvm.DataType(dtype)
    return max(1, int(kind.bits) * int(kind.lanes) // 8)
