"""What a TensorIR function says of itself: its blocks, its loops, whether it is scheduled."""

from __future__ import annotations

from typing import Any, TypeVar

import tvm
import tvm_ffi
from tvm import s_tir, tirx

Node = TypeVar("Node")
_SCHEDULED = "tirx.is_scheduled"
_TF32 = "tvmbuild_tf32"
_PLAIN = "tvmbuild_plain_loops"
LLVM_CALL = "tirx.call_llvm_pure_intrin"
"""A call of a function of LLVM's."""


def is_scheduled(function: tirx.PrimFunc) -> bool:
    """Say whether a record or a rule has scheduled it."""
    return bool(function.attrs is not None and function.attrs.get(_SCHEDULED, False))


def mark_scheduled(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the function as one that needs no other schedule."""
    return function.with_attr(_SCHEDULED, True)


def has_plain_loops(function: tirx.PrimFunc) -> bool:
    """Say whether a rule has left some sum of it to a plain loop."""
    return bool(function.attrs is not None and function.attrs.get(_PLAIN, False))


def mark_plain_loops(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the function as one of whose sums some are left to a plain loop."""
    return function.with_attr(_PLAIN, True)


def allows_tf32(function: tirx.PrimFunc) -> bool:
    """Say whether its products of float32 may be of their first 10 bits, as tensor cores take them."""
    return bool(function.attrs is not None and function.attrs.get(_TF32, False))


def allow_tf32(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the function as one whose products may be such; of what has no sum as it is: its records fit both."""
    sums = any(block.init is not None for block in list_blocks(function))
    return function.with_attr(_TF32, True) if sums else function


def names_instructions(function: tirx.PrimFunc) -> bool:
    """Say whether it was written with functions of LLVM's, which not every CPU may have."""
    return any(str(getattr(call.op, "name", "")) == LLVM_CALL for call in list_nodes(function, tvm.ir.Call))


def list_blocks(function: tirx.PrimFunc) -> list[s_tir.SBlock]:
    """Return the function's blocks, in no order that matters."""
    return list_nodes(function, s_tir.SBlock)


def has_block(function: tirx.PrimFunc, name: str) -> bool:
    """Say whether a block of the function has that name."""
    return any(str(block.name_hint) == name for block in list_blocks(function))


def has_parallel_loop(function: tirx.PrimFunc) -> bool:
    """Say whether the function was written with its loops: one runs on all threads before any rule was applied."""
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in list_nodes(function, tirx.For))


def list_nodes(function: tirx.PrimFunc, kind: type[Node]) -> list[Node]:
    """Return what of the function's body is of the kind, in no order that matters."""
    return list_within(function.body, kind)


def list_within(statement: Any, kind: type[Node]) -> list[Node]:
    """Return what of the statement, or of an expression, is of the kind, in no order that matters."""
    found: list[Node] = []
    tvm_ffi.structural_walk(statement, [(kind, found.append)])
    return found
