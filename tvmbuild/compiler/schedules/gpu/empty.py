"""Loops that never turn, over a dimension of size 0: DLight's rules divide by it."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx


def drop_empty_loops(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the function without them, and without loops that turn for nothing else."""
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(function.body, [(tirx.For, found.append)])
    if not any(_is_empty(loop) for loop in found):
        return function
    return function.with_body(tvm_ffi.structural_map(function.body, [(tirx.For, _drop), (tirx.SeqStmt, _shorten)]))


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
