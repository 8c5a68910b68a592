"""Queries about a TensorIR function: its blocks, its loops, its attributes."""

from __future__ import annotations

from typing import Any, TypeVar

import tvm
import tvm_ffi
from tvm import s_tir, tirx

Node = TypeVar("Node")
_SCHEDULED = "tirx.is_scheduled"
_TF32 = "tvmbuild_tf32"
_PLAIN = "tvmbuild_plain_loops"
_BLOCK = ("iter_vars", "reads", "writes", "name_hint", "body", "init", "alloc_buffers", "match_buffers", "annotations")
"""The fields of a block."""
LLVM_CALL = "tirx.call_llvm_pure_intrin"
"""The TensorIR operator that calls an LLVM intrinsic."""


def is_scheduled(function: tirx.PrimFunc) -> bool:
    """Return whether a record or a rule has scheduled the function."""
    return bool(function.attrs is not None and function.attrs.get(_SCHEDULED, False))


def mark_scheduled(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Mark the function as scheduled."""
    return function.with_attr(_SCHEDULED, True)


def has_plain_loops(function: tirx.PrimFunc) -> bool:
    """Return whether a schedule rule left a reduction of the function as a plain loop, without optimization."""
    return bool(function.attrs is not None and function.attrs.get(_PLAIN, False))


def mark_plain_loops(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Mark the function as one with a reduction that a schedule rule left as a plain loop."""
    return function.with_attr(_PLAIN, True)


def allows_tf32(function: tirx.PrimFunc) -> bool:
    """Return whether the function's float32 products may use TF32: factors rounded to 10 bits of mantissa.

    `allow_tf32` sets this mark.
    """
    return bool(function.attrs is not None and function.attrs.get(_TF32, False))


def allow_tf32(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Mark a function as allowed to use TF32.

    A function without a reduction is returned unchanged, so that its records serve both precisions.
    """
    sums = any(block.init is not None for block in list_blocks(function))
    return function.with_attr(_TF32, True) if sums else function


def names_instructions(function: tirx.PrimFunc) -> bool:
    """Return whether the function calls LLVM intrinsics, which need instructions that some CPUs lack."""
    return any(str(getattr(call.op, "name", "")) == LLVM_CALL for call in list_nodes(function, tvm.ir.Call))


def list_blocks(function: tirx.PrimFunc) -> list[s_tir.SBlock]:
    """Return the function's blocks, in no particular order."""
    return list_nodes(function, s_tir.SBlock)


def has_block(function: tirx.PrimFunc, name: str) -> bool:
    """Return whether the function has a block named ``name``."""
    return any(str(block.name_hint) == name for block in list_blocks(function))


def change_block(block: s_tir.SBlock, **changed: Any) -> s_tir.SBlock:
    """Return a copy of the block with the given fields changed."""
    return s_tir.SBlock(**{part: changed.get(part, getattr(block, part)) for part in _BLOCK}, span=block.span)


def has_parallel_loop(function: tirx.PrimFunc) -> bool:
    """Return whether the function has a parallel loop.

    Before any schedule rule has run, this means that the function was written with its final loops.
    """
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in list_nodes(function, tirx.For))


def list_nodes(function: tirx.PrimFunc, kind: type[Node]) -> list[Node]:
    """Return the nodes of one kind in the function's body, in no particular order."""
    return list_within(function.body, kind)


def list_within(statement: Any, kind: type[Node]) -> list[Node]:
    """Return the nodes of one kind in a statement or an expression, in no particular order."""
    found: list[Node] = []
    tvm_ffi.structural_walk(statement, [(kind, found.append)])
    return found
