"""Machine code by rule: its sums, and the vectors that it spills to the stack because sums take the registers."""

from __future__ import annotations

import re
from typing import Any

import tvm

from tvmbuild.compiler.schedules.cpu.rules import list_schedules

_SUM = re.compile(r"\s(vpdpbusd|vfn?madd\d+ps|vpmaddwd)\s")
_WRITTEN = re.compile(r"\svmov\w+\s+%[xyz]mm\d+, -?\d+\(%rsp\)")


def count_sums(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tuple[int, int]:
    """Return the instructions that add to a sum, and those that write a vector to the stack."""
    (schedule, *_) = list_schedules(mod, target, 1)
    code: Any = tvm.compile(schedule.mod, target).mod.inspect_source("asm")
    lines = code.splitlines()
    sums, written = (sum(pattern.search(line) is not None for line in lines) for pattern in (_SUM, _WRITTEN))
    return sums, written
