"""One function for each normalisation that exporters write as reductions and elementwise operators.

FuseOps fuses a mean only with the operators before it, and does not change the functions that this pass makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tvm
from tvm import relax, s_tir, tirx
from tvm.relax.analysis import all_vars

from tvmbuild.compiler.ir.calls import display_name, is_call
from tvmbuild.compiler.ir.def_use import DefUse
from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, OPAQUE, static_shape
from tvmbuild.compiler.ir.modules import replace_main
from tvmbuild.compiler.ir.prim_funcs import list_nodes
from tvmbuild.compiler.remarks import missed
from tvmbuild.compiler.schedules.access import Access, collect

_MOST = 32
"""The largest number of operators in one function."""


def fuse_normalization(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Group each chain of operators over the same rows into a function for FuseTIR."""
    main = mod["main"]
    blocks, changed = [], False
    for block in main.body.blocks:
        grouped = _Grouping(mod, main, block).run() if isinstance(block, relax.DataflowBlock) else None
        changed |= grouped is not None
        mod, new = grouped or (mod, block)
        blocks.append(new)
    if not changed:
        return mod
    body = relax.SeqExpr(blocks, main.body.body)
    function = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    return relax.transform.Normalize()(replace_main(mod, function))


class _Grouping:
    def __init__(self, mod: tvm.ir.IRModule, main: relax.Function, block: relax.DataflowBlock) -> None:
        self.mod = mod
        self.block = block
        self.operators = {
            binding.var: found for binding in block.bindings if (found := read_operator(mod, binding)) is not None
        }
        self.def_use = DefUse(main)

    def run(self) -> tuple[tvm.ir.IRModule, relax.DataflowBlock] | None:
        """Return the module with the new functions, and the block that calls them, or None if no group was found."""
        groups: list[list[Operator]] = []
        taken: set[relax.Var] = set()
        for each in self.operators.values():
            if each.kind in {"reduction", "whole"} and each.var not in taken:
                group = self._grow(each, taken)
                if group:
                    groups.append(group)
                    taken |= {member.var for member in group}
        if not groups:
            return None
        last = {group[-1].var: group for group in groups}
        builder = relax.BlockBuilder(self.mod)
        bindings = []
        for binding in self.block.bindings:
            if binding.var in last:
                bindings.append(relax.VarBinding(binding.var, _make_call(builder, last[binding.var])))
            elif binding.var not in taken:
                bindings.append(binding)
        return builder.get(), relax.DataflowBlock(bindings)

    def _grow(self, seed: Operator, taken: set[relax.Var]) -> list[Operator] | None:
        """Return the group of operators around ``seed``, in program order, or None if there is none to fuse.

        Of the values that a group computes, only the last may be used outside of the group.
        """
        members = self._reach_back([seed], taken)
        start, inside, tainted = len(members), {each.var for each in members}, set[relax.Var]()
        given = {argument for each in members for argument in each.arguments if isinstance(argument, relax.Var)}
        row = seed.shape if seed.kind == "reduction" else None
        for binding in self._bindings_after(seed):
            arguments, each = set(all_vars(binding.value)), self.operators.get(binding.var)
            if binding.var in inside:
                continue
            fits = each is not None and binding.var not in taken and _fits(each, seed.wide, row)
            depends = arguments & inside or (
                fits and each is not None and each.kind == "reduction" and arguments & given
            )
            if fits and each is not None and depends and not arguments & tainted and len(members) < _MOST:
                row = each.shape if each.kind == "reduction" else row
                inside.add(each.var)
                members.append(each)
            elif arguments & (inside | tainted):
                tainted.add(binding.var)
        return self._trim(members, seed, start)

    def _bindings_after(self, seed: Operator) -> list[relax.Binding]:
        bindings = list(self.block.bindings)
        return bindings[next(i for i, each in enumerate(bindings) if each.var.same_as(seed.var)) + 1 :]

    def _reach_back(self, members: list[Operator], taken: set[relax.Var]) -> list[Operator]:
        """Return the members and the elementwise operators before them that only they use, in program order.

        An operator after a product that nothing else uses stays outside, because FuseOps fuses both.
        """
        inside, wide = {each.var for each in members}, members[0].wide
        queue = list(members)
        while queue:
            for argument in queue.pop().arguments:
                each = self.operators.get(argument) if isinstance(argument, relax.Var) else None
                if each is None or each.var in inside or each.var in taken or each.kind != "element":
                    continue
                is_inner = each.shape == wide and self.def_use.is_only_used_by(each.var, inside)
                if is_inner and not self._follows_product(each):
                    inside.add(each.var)
                    members.insert(0, each)
                    queue.append(each)
        return [self.operators[binding.var] for binding in self.block.bindings if binding.var in inside]

    def _follows_product(self, each: Operator) -> bool:
        found = [self.operators.get(argument) for argument in each.arguments if isinstance(argument, relax.Var)]
        return any(
            other is not None
            and self.def_use.is_only_used_by(other.var, {each.var})
            and (
                (other.kind == "other" and find_pattern(self.mod, other.call) == FUSABLE_WITH_ELEMENTWISE)
                or (other.kind == "element" and self._follows_product(other))
            )
            for other in found
        )

    def _trim(self, members: list[Operator], seed: Operator, start: int) -> list[Operator] | None:
        """Return the longest group of first members whose last value alone is used outside of the group, or None."""
        for count in range(len(members), start, -1):
            group = members[:count]
            if self._is_closed(group) and _is_worth_it(group):
                return group
        alone = members[:start]
        whole = len(alone) > 1 and seed.kind == "whole" and self._is_closed(alone)
        return alone if whole else missed(self._explain(members, start))

    def _explain(self, members: list[Operator], start: int) -> str:
        """Return the reason why no group was made; the first ``start`` members are the seed and operators before it."""
        if len(members) == start:
            return "nothing over the same rows follows it"
        if any(self._is_closed(members[:count]) for count in range(start + 1, len(members) + 1)):
            return "FuseOps fuses what follows it"
        return "several of the values over its rows are used elsewhere"

    def _is_closed(self, group: Sequence[Operator]) -> bool:
        inside = {each.var for each in group}
        used = [each.var for each in group if not self.def_use.is_only_used_by(each.var, inside)]
        return len(used) == 1 and used[0].same_as(group[-1].var)


def _fits(each: Operator, wide: Shape, row: Shape | None) -> bool:
    """Return whether the operator works on the same rows as a group.

    It must reduce a tensor of shape ``wide``, or compute one value for each element (shape ``wide``) or for each row
    (shape ``row``).
    """
    if each.kind == "reduction":
        return each.wide == wide and row in {None, each.shape}
    return each.kind == "element" and each.shape in {wide, row}


def _is_worth_it(group: Sequence[Operator]) -> bool:
    """Return whether FuseOps would leave several passes over the rows.

    FuseOps can fuse operators after a softmax or norm, and operators before a sum, in one pass.
    """
    kinds = [each.kind for each in group]
    reductions = kinds.count("reduction") + kinds.count("whole")
    if kinds[0] == "whole" and reductions == 1:
        return False
    ends_wide = group[-1].kind != "reduction" and group[-1].shape == group[0].wide
    return reductions > 1 or ends_wide


def _make_call(builder: relax.BlockBuilder, group: Sequence[Operator]) -> relax.Call:
    """Add a function of the group's operators to the module, and return a call of this function."""
    inside = {each.var for each in group}
    given: list[relax.Expr] = []
    for each in group:
        for argument in each.arguments:
            if not (isinstance(argument, relax.Var) and argument in inside) and not _find(given, argument):
                given.append(argument)
    parameters = [relax.Var(f"param_{number}", each.ty) for number, each in enumerate(given)]
    values: dict[Any, relax.Expr] = {}

    def value(argument: relax.Expr) -> relax.Expr:
        if isinstance(argument, relax.Var) and argument in values:
            return values[argument]
        return next(p for p, each in zip(parameters, given, strict=True) if each.same_as(argument))

    name = "fused_" + "_".join(display_name(each.call.args[0].name_hint) for each in group)
    with builder.function(name, parameters, attrs={"Primitive": True}, private=True):
        with builder.dataflow():
            for each in group[:-1]:
                values[each.var] = builder.emit(_call(each, [value(argument) for argument in each.arguments]))
            last = group[-1]
            out = builder.emit_output(_call(last, [value(argument) for argument in last.arguments]))
        variable = builder.emit_func_output(out)
    return relax.Call(variable, given)


def _call(each: Operator, arguments: Sequence[relax.Expr]) -> relax.Call:
    return relax.Call(each.call.op, [each.call.args[0], relax.Tuple(arguments)], each.call.attrs, each.call.ty_args)


def _find(given: Sequence[relax.Expr], argument: relax.Expr) -> bool:
    return any(each.same_as(argument) for each in given)


# The operators on rows among the calls of TensorIR functions: one value for each element, one for each row, or both.

Kind = Literal["element", "reduction", "whole", "other"]
"""The kinds of operators: elementwise; a reduction of each row to one value; a reduction and its elementwise use in one
function, like softmax or a norm; all others."""
Shape = tuple[int, ...]
_BROADCAST, _REDUCTION = 1, 3


@dataclass(frozen=True)
class Operator:
    """A binding of ``main`` that calls a TensorIR function."""

    var: relax.Var
    call: relax.Call
    kind: Kind
    shape: Shape
    wide: Shape
    """The shape of the tensor that the operator reduces, or ``shape`` if it reduces nothing."""

    @property
    def arguments(self) -> tuple[relax.Expr, ...]:
        """The arguments of the TensorIR function."""
        return tuple(self.call.args[1].fields)


def read_operator(mod: tvm.ir.IRModule, binding: relax.Binding) -> Operator | None:
    """Return the operator that the binding calls, or None if its value is not a ``call_tir`` of known shape."""
    call = binding.value
    shape = static_shape(binding.var)
    if not is_call(call, "relax.call_tir") or shape is None or len(call.args) != 2:
        return None
    kind, wide = _classify(mod, call, shape)
    return Operator(binding.var, call, kind, shape, wide)


def _classify(mod: tvm.ir.IRModule, call: relax.Call, shape: Shape) -> tuple[Kind, Shape]:
    pattern = find_pattern(mod, call)
    if pattern <= _BROADCAST:
        return "element", shape
    tensors = [found for each in call.args[1].fields if (found := static_shape(each)) is not None]
    function = mod[call.args[0]]
    if pattern not in {_REDUCTION, FUSABLE_WITH_ELEMENTWISE} or not tensors or not _goes_over_rows(function):
        return "other", shape
    wide = tensors[0]
    if wide == shape:
        return "whole", shape
    kept = len(wide) == len(shape) and all(b in {a, 1} for a, b in zip(wide, shape, strict=True))
    return ("reduction", wide) if kept else ("other", shape)


def _goes_over_rows(function: tirx.PrimFunc) -> bool:
    """Return whether the function reduces only its first input, and uses each element in one sum.

    A product, for comparison, uses each element in many sums.
    """
    inputs = [getattr(each, "buffer", each) for each in function.params[:-1]]
    reductions = [block for block in list_nodes(function, s_tir.SBlock) if _is_reduction(block)]
    reads = [
        (block, load)
        for block in reductions
        for load in collect(block.body.value).loads
        if any(load.buffer.same_as(each) for each in inputs)
    ]
    return bool(reads) and all(
        load.buffer.same_as(inputs[0]) and _reads_each_once(block, load) for block, load in reads
    )


def _reads_each_once(block: s_tir.SBlock, load: Access) -> bool:
    plain = all(isinstance(index, tirx.Var | tirx.IntImm) for index in load.indices)
    long = [var.var for var in block.iter_vars if not _is_one(var.dom.extent)]
    return plain and all(any(index.same_as(var) for index in load.indices) for var in long)


def _is_reduction(block: s_tir.SBlock) -> bool:
    return isinstance(block.body, tirx.BufferStore) and any(
        var.iter_type == tirx.IterVar.CommReduce for var in block.iter_vars
    )


def _is_one(extent: Any) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 1


def find_pattern(mod: tvm.ir.IRModule, call: relax.Call) -> int:
    """Return the `op_pattern` of the called TensorIR function: TVM's number for its kind of operator."""
    return int((mod[call.args[0]].attrs or {}).get("op_pattern", OPAQUE))
