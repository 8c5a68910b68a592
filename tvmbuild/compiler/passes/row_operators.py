"""What a call of a TensorIR function does to rows: one value for each element, one for each row, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import tvm
from tvm import relax, s_tir, tirx

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, OPAQUE, static_shape
from tvmbuild.compiler.ir.prim_funcs import list_nodes
from tvmbuild.compiler.schedules.access import Access, collect

Kind = Literal["element", "reduction", "whole", "other"]
"""One value for each of its input's; one for each row; a softmax or a norm, both of it; anything else."""
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
    """Of what it reduces; its own shape where it reduces nothing."""

    @property
    def arguments(self) -> tuple[relax.Expr, ...]:
        """Return what the function is given."""
        return tuple(self.call.args[1].fields)


def read_operator(mod: tvm.ir.IRModule, binding: relax.Binding) -> Operator | None:
    """Return what the binding calls; None where it is no function of known shapes."""
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
    """Say whether it sums up its first input alone, each element for one sum: those of a product are for many."""
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
    """Return Relax's kind of operator of the function that is called."""
    return int((mod[call.args[0]].attrs or {}).get("op_pattern", OPAQUE))
