"""Functions with more tensors than a target's kernels may take, split into pieces: FuseOps has no option for the limit.

On a target without a limit, code with hundreds of tensors in one function takes minutes to generate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.relax.analysis import all_vars

from tvmbuild.compiler.ir.calls import is_call, is_kernel_call
from tvmbuild.compiler.ir.def_use import DefUse, resolve
from tvmbuild.compiler.ir.expressions import INJECTIVE
from tvmbuild.compiler.ir.modules import keep_if_same
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.machine.limits import MAX_TENSORS
from tvmbuild.compiler.passes.fuse_normalization import find_pattern
from tvmbuild.compiler.passes.pieces import Piece, bind_piece, inline_chain, is_chain, piece_of, replace_blocks

_MAX_OPERATORS = 64
"""The largest number of operators in one piece. The limit of FuseOps is 256, and the time to generate code grows with
the square of the number."""


def most_tensors(target: tvm.target.Target) -> int:
    """Return the largest number of tensors, inputs and result together, of a function for the target."""
    stated = target.attrs.get("max_per_stage_descriptor_storage_buffer", MAX_TENSORS)
    return max(3, min(int(stated), MAX_TENSORS))


def split_concatenations(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Split each `concat` of more tensors than a function for the target may take into a tree of several."""
    most = most_tensors(target) - 1
    return rewrite_calls(mod, lambda builder, call: _split_concatenation(builder, call, most))


def _split_concatenation(builder: relax.BlockBuilder, call: relax.Call, most: int) -> relax.Expr | None:
    if not is_call(call, "relax.concat") or not isinstance(call.args[0], relax.Tuple):
        return None
    parts = list(call.args[0].fields)
    if len(parts) <= most:
        return None
    parts = [_slice_again(builder, each) for each in parts]
    while len(parts) > most:
        size = -(-len(parts) // -(-len(parts) // most))
        parts = [_concatenate(builder, parts[i : i + size], call) for i in range(0, len(parts), size)]
    return relax.op.concat(parts, call.attrs.axis)


def _slice_again(builder: relax.BlockBuilder, part: relax.Expr) -> relax.Expr:
    """Emit a slice again, so that it is fused with its reader: a function for each slice takes longer to compile."""
    value = resolve(builder.lookup_binding, part)
    if is_call(value, "relax.strided_slice"):
        return builder.emit(relax.Call(value.op, value.args, value.attrs, value.ty_args))
    if is_call(value, "relax.expand_dims") or is_call(value, "relax.reshape"):
        data = _slice_again(builder, value.args[0])
        if not data.same_as(value.args[0]):
            return builder.emit(relax.Call(value.op, [data, *value.args[1:]], value.attrs, value.ty_args))
    return part


def _concatenate(builder: relax.BlockBuilder, parts: Sequence[relax.Expr], call: relax.Call) -> relax.Expr:
    return parts[0] if len(parts) == 1 else builder.emit(relax.op.concat(parts, call.attrs.axis))


def split_wide_functions(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Split each function with more tensors than the target allows, after FuseOps.

    Each piece has one result; values between its operators are not stored in memory. FuseOps also stops after a number
    of operators: slices that it did not fuse with a wide function are fused with a piece.
    """
    calls = (binding.value for block in mod["main"].body.blocks for binding in block.bindings)
    most = most_tensors(target)
    if any(_is_wide(each, most) for each in mod.functions.values()) or any(_has_many(each, most) for each in calls):
        return _Split(mod, most).run()
    return mod


class _Split:
    def __init__(self, mod: tvm.ir.IRModule, most: int) -> None:
        self._mod, self._most = mod, most
        self._builder = relax.BlockBuilder(mod)
        self._taken: set[relax.Var] = set()
        """The variables of the operators that the pieces share out: those of wide functions, and those to fuse with
        them."""

    def run(self) -> tvm.ir.IRModule:
        main = self._mod["main"]
        blocks = [type(block)(self._write_out(block.bindings)) for block in main.body.blocks]
        uses = DefUse(relax.Function(main.params, relax.SeqExpr(blocks, main.body.body), main.ret_ty)).uses
        blocks = [type(block)(self._split(block.bindings, uses)) for block in blocks]
        return keep_if_same(self._mod, replace_blocks(self._builder, main, blocks))

    def _write_out(self, bindings: Sequence[relax.Binding]) -> list[relax.Binding]:
        """Return the bindings with wide functions, and fused functions of injective operators, inlined."""
        written: list[relax.Binding] = []
        for binding in bindings:
            function = self._callee(binding)
            if function is None or not (_is_wide(function, self._most) or self._is_injective(function)):
                written.append(binding)
                continue
            inside = inline_chain(function, binding)
            written += inside
            if _is_wide(function, self._most):
                self._taken |= {each.var for each in inside}
        return written

    def _callee(self, binding: relax.Binding) -> relax.Function | None:
        call = binding.value
        if not is_kernel_call(call):
            return None
        function = self._mod[call.op]
        return function if is_chain(function) else None

    def _is_injective(self, function: relax.Function) -> bool:
        return all(find_pattern(self._mod, each.value) <= INJECTIVE for each in function.body.blocks[0].bindings)

    def _split(self, bindings: Sequence[relax.Binding], uses: Counter[relax.Var]) -> list[relax.Binding]:
        self._reach_back(bindings, uses)
        pieces: dict[relax.Var, Piece] = {}
        for binding in bindings:
            piece = piece_of(binding)
            if binding.var in self._taken:
                given = [pieces[each] for each in all_vars(binding.value) if each in pieces and uses[each] == 1]
                for other in sorted(given, key=lambda each: each.buffers):
                    joined = piece.follow(other)
                    fits = joined.buffers <= self._most and len(joined.bindings) <= _MAX_OPERATORS
                    if fits and other.result in self._taken:
                        piece = joined
                        del pieces[other.result]
            pieces[binding.var] = piece
        return [bind_piece(self._builder, each) for each in pieces.values()]

    def _reach_back(self, bindings: Sequence[relax.Binding], uses: Counter[relax.Var]) -> None:
        """Add to ``_taken`` the operators with many tensors, and the injective operators that only taken ones use."""
        wanted: set[relax.Var] = set()
        for binding in reversed(bindings):
            fits = is_call(binding.value, "relax.call_tir") and find_pattern(self._mod, binding.value) <= INJECTIVE
            if binding.var in wanted and uses[binding.var] == 1 and fits:
                self._taken.add(binding.var)
            if binding.var in self._taken or _has_many(binding.value, self._most):
                self._taken.add(binding.var)
                wanted |= set(all_vars(binding.value))


def _is_wide(function: tvm.ir.BaseFunc, most: int) -> bool:
    return is_chain(function) and len(function.params) + 1 > most


def _has_many(call: relax.Expr, most: int) -> bool:
    """Return whether the call is one operator with at least half as many tensors as the limit ``most``."""
    return is_call(call, "relax.call_tir") and len(call.args[1].fields) >= most // 2
