"""A module's memory beside its code: the static plan, the memory that kernels allocate, and the largest arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm_ffi import dtype as ffi_dtype

from tvmbuild.compiler.codegen.scratch import Event, find_scratch
from tvmbuild.compiler.codegen.workspace import find_workspace
from tvmbuild.compiler.ir.calls import display_name, is_kernel_call, name_before_repacking
from tvmbuild.package.allocations import LargeArray, Scratch

MOST_LISTED = 5


@dataclass(frozen=True)
class MemoryPlan:
    """The memory that calls take, beside weights and code."""

    workspace: int
    """The bytes that a call allocates (`find_workspace`)."""
    scratch: Scratch
    largest: tuple[LargeArray, ...]
    """The largest arrays, weights too, the largest first."""


def plan_memory(mod: tvm.ir.IRModule, found: Mapping[str, tuple[Event, ...]]) -> MemoryPlan:
    """Return the memory of a lowered module, whose kernels allocate ``found``."""
    functions = [each for each in mod.functions.values() if isinstance(each, relax.Function)]
    calls = [name for function in functions for name, _ in _list_calls(function)]
    arrays = {each for function in functions for each in _list_arrays(function)} | set(_list_scratch(calls, found))
    by_size = sorted(arrays, key=lambda each: (-each.bytes, each.part, each.operator, each.shape))
    return MemoryPlan(find_workspace(mod), find_scratch(calls, found), tuple(by_size[:MOST_LISTED]))


def _list_calls(function: relax.Function) -> Iterator[tuple[str, Sequence[relax.Expr]]]:
    """Yield the name and the arguments of each call of a kernel."""
    for block in function.body.blocks:
        for binding in block.bindings:
            if is_kernel_call(binding.value):
                yield binding.value.op.name_hint, binding.value.args


def _list_arrays(function: relax.Function) -> Iterator[LargeArray]:
    """Yield the weights and the values between the operators, each with the first kernel that has it."""
    params = list(function.params)
    inputs = int((function.attrs or {}).get("num_input", len(params)))
    parts = dict.fromkeys(params[inputs:], "weights") | dict.fromkeys(params[:inputs])
    for name, arguments in _list_calls(function):
        for each in arguments:
            part = parts.setdefault(each, "workspace") if isinstance(each, relax.Var) else None
            if part and isinstance(each.ty, relax.TensorType) and isinstance(each.ty.shape, relax.ShapeExpr):
                shape = tuple(int(size) for size in each.ty.shape)
                yield _describe(part, name, shape, str(each.ty.dtype))
                parts[each] = None


def _list_scratch(calls: Sequence[str], found: Mapping[str, tuple[Event, ...]]) -> list[LargeArray]:
    """Return the arrays of the kernel that allocates most, because its memory serves the others."""
    name = max(calls, key=lambda each: sum(event.size for event in found.get(each, ())), default="")
    events = [event for event in found.get(name, ()) if event.size]
    return [_describe("scratch", name, (int(each.size / _count_bytes(each.dtype)),), each.dtype) for each in events]


def _describe(part: str, function: str, shape: tuple[int, ...], dtype: str) -> LargeArray:
    size = math.ceil(math.prod(shape) * _count_bytes(dtype))
    return LargeArray(part, display_name(name_before_repacking(function)), shape, dtype, size)


def _count_bytes(dtype: str) -> float:
    return int(ffi_dtype(dtype).bits) / 8
