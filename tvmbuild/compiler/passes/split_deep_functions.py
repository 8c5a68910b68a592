"""Functions that inlining would make exponentially long, split at values that are read several times.

Every schedule inlines elementwise operators into their readers: the rules here, those of DLight and MetaSchedule, and
the epilogues of Winograd. An operator that reads its operand twice doubles the expression, and ten chained HardSwish
become 1024 copies of the first one. A variable in the expression does not help: TVM's simplifier replaces it by its
value. Memory does, and a function of `MOST_READS` copies computes longer than it reads and writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, tirx

from tvmbuild.compiler.ir.expressions import INJECTIVE
from tvmbuild.compiler.ir.prim_funcs import list_blocks
from tvmbuild.compiler.passes.fuse_normalization import find_pattern
from tvmbuild.compiler.passes.pieces import bind_piece, inline_chain, is_chain, piece_of, replace_blocks
from tvmbuild.compiler.schedules.access import collect

MOST_READS = 128
"""The largest number of reads in an expression with all operators inlined: 0.17 s of code generation for a chain of
HardSwish. Each further one doubles it: 0.5 s for 10, 5 s for 13."""


def split_deep_functions(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Split each function whose inlined expression has more than `MOST_READS` reads because values are read repeatedly.

    The values between the pieces are stored in memory. A function without repeated reads stays, however wide it is.
    """
    divided = {
        variable: groups
        for variable, function in mod.functions.items()
        if is_chain(function) and len(groups := _divide(mod, function)) > 1
    }
    if not divided:
        return mod
    builder, main = relax.BlockBuilder(mod), mod["main"]
    blocks = []
    for block in main.body.blocks:
        bindings: list[relax.Binding] = []
        for each in block.bindings:
            callee = each.value.op if isinstance(each.value, tvm.ir.Call) else None
            inside = inline_chain(mod[callee], each) if callee in divided else [each]
            groups = divided.get(callee, [[0]])
            bindings += [bind_piece(builder, piece_of(*(inside[index] for index in group))) for group in groups]
        blocks.append(type(block)(bindings))
    return replace_blocks(builder, main, blocks)


@dataclass(frozen=True)
class _Operator:
    """An operator of a function, with its reads."""

    reads: Counter[int | None]
    """The number of reads of each operator's result, by its position; None is the function's own parameters."""
    is_inlined: bool
    """True if schedules inline its result into its readers."""


def _divide(mod: tvm.ir.IRModule, function: relax.Function) -> list[list[int]]:
    """Return the positions of the bindings of each piece; the last one of a piece is its result."""
    operators = _read_operators(mod, function.body.blocks[0].bindings)
    stored = {len(operators) - 1}
    while (position := _find_cut(operators, stored)) is not None:
        stored.add(position)
    return _group(operators, stored)


def _read_operators(mod: tvm.ir.IRModule, bindings: Sequence[relax.Binding]) -> list[_Operator]:
    positions = {binding.var: index for index, binding in enumerate(bindings)}
    operators = []
    for binding in bindings:
        call, reads = binding.value, Counter[int | None]()
        counts = _count_reads(mod[call.args[0]])
        for argument, number in zip(call.args[1].fields, counts, strict=False):
            reads[positions.get(argument) if isinstance(argument, relax.Var) else None] += number
        operators.append(_Operator(reads, find_pattern(mod, call) <= INJECTIVE))
    return operators


def _count_reads(function: tirx.PrimFunc) -> list[int]:
    """Return how often the result reads each parameter if the function's own blocks are inlined."""
    buffers = [getattr(each, "buffer", each) for each in function.params]
    values = {block.body.buffer: block.body.value for block in list_blocks(function) if _stores(block)}
    found: dict[object, Counter[object]] = {}

    def visit(buffer: object) -> Counter[object]:
        if buffer not in found:
            found[buffer] = Counter({buffer: 1})
            if buffer in values:
                loads = Counter(load.buffer for load in collect(values[buffer]).loads)
                total: Counter[object] = Counter()
                for other, times in loads.items():
                    for source, number in visit(other).items():
                        total[source] += times * number
                found[buffer] = total
        return found[buffer]

    reads = visit(buffers[-1])
    return [max(1, reads[each]) for each in buffers]


def _stores(block: object) -> bool:
    return isinstance(getattr(block, "body", None), tirx.BufferStore)


def _find_cut(operators: Sequence[_Operator], stored: set[int]) -> int | None:
    """Return the operator whose result must be stored so that the first long expression becomes shorter, if any."""
    users = Counter[int | None]()
    for each in operators:
        users += each.reads
    sizes: list[int] = []
    for index, operator in enumerate(operators):
        sizes.append(sum(n * (1 if at is None else sizes[at]) for at, n in operator.reads.items()))
        if sizes[index] > MOST_READS:
            cone = _list_cone(operators, stored, index)
            repeated = [each for each in cone if users[each] > 1 and sizes[each] > 1]
            if repeated:
                return max(repeated, key=lambda each: (sizes[each], each))
        if index in stored or not operator.is_inlined:
            sizes[index] = 1
    return None


def _list_cone(operators: Sequence[_Operator], stored: set[int], index: int) -> set[int]:
    """Return the positions of the operators that are inlined into the one at ``index``."""
    cone, left = set[int](), [index]
    while left:
        inner = {at for at in operators[left.pop()].reads if at is not None} - cone - stored
        inner = {at for at in inner if operators[at].is_inlined}
        cone |= inner
        left += inner
    return cone


def _group(operators: Sequence[_Operator], stored: set[int]) -> list[list[int]]:
    """Return the operators of each piece. A value that several pieces read is stored, and ends a piece."""
    readers: dict[int | None, list[int]] = {}
    for index, operator in enumerate(operators):
        for at in operator.reads:
            readers.setdefault(at, []).append(index)
    ends: dict[int, int] = {}
    for index in reversed(range(len(operators))):
        reached = {ends[each] for each in readers.get(index, ())}
        ends[index] = index if index in stored or len(reached) != 1 else reached.pop()
    groups: dict[int, list[int]] = {}
    for index in range(len(operators)):
        groups.setdefault(ends[index], []).append(index)
    return [groups[end] for end in sorted(groups)]
