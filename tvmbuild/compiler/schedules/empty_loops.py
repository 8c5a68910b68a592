"""The removal of empty loops, over a dimension of size 0: schedule rules and primitives would divide by this size."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from tvmbuild.compiler.ir.prim_funcs import list_nodes


def drop_empty_loops(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the function without empty loops, and without loops that contain nothing else."""
    if not has_empty_loops(function):
        return function
    return function.with_body(tvm_ffi.structural_map(function.body, [(tirx.For, _drop), (tirx.SeqStmt, _shorten)]))


def has_empty_loops(function: tirx.PrimFunc) -> bool:
    """Return whether some loop of the function has no iterations."""
    return any(_is_empty(loop) for loop in list_nodes(function, tirx.For))


def _is_empty(loop: tirx.For) -> bool:
    return isinstance(loop.extent, tirx.IntImm) and int(loop.extent) <= 0


def _drop(loop: tirx.For) -> Any:
    return tirx.Evaluate(0) if _is_empty(loop) or _is_nothing(loop.body) else loop


def _shorten(sequence: tirx.SeqStmt) -> Any:
    kept = [each for each in sequence.seq if not _is_nothing(each)]
    if len(kept) == len(sequence.seq):
        return sequence
    return tirx.SeqStmt(kept) if len(kept) > 1 else kept[0] if kept else tirx.Evaluate(0)


def _is_nothing(statement: Any) -> bool:
    return isinstance(statement, tirx.Evaluate) and isinstance(statement.value, tirx.IntImm)
