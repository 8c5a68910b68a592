"""Tensor intrinsics for the dot-product instructions of CPUs; schedules and records refer to them by name."""

# mypy: disable-error-code="valid-type, untyped-decorator"
# TVM parses these annotations; Python does not evaluate them.

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T  # noqa: N812 - as its scripts are written

from tvmbuild.compiler.codegen.column_intrinsics import register_columns
from tvmbuild.compiler.machine.dot_instructions import INSTRUCTIONS, DotInstruction, list_intrinsics


@cache
def register_intrinsics() -> None:
    """Register the intrinsics of all dot instructions, once in a process."""
    for each in list_intrinsics():
        TensorIntrin.register(each.intrinsic, _describe(each), _implement(each), override=True)
    for each in INSTRUCTIONS:
        if each.adds_columns:
            register_columns(each)


def _describe(instruction: DotInstruction) -> Any:
    lanes, group, data_type = instruction.lanes, instruction.group, instruction.data
    steps, depth = instruction.steps, instruction.depth

    @T.prim_func(s_tir=True)
    def description(
        data: T.Buffer((depth,), data_type, offset_factor=1),
        weights: T.Buffer((steps, lanes, group), "int8", offset_factor=1),
        sums: T.Buffer((lanes,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:lanes], data[0:depth], weights[0:steps, 0:lanes, 0:group])
            T.writes(sums[0:lanes])
            for lane in T.serial(0, lanes):
                for k in T.serial(0, depth):
                    with T.sblock("update"):
                        vi, vk = T.axis.remap("SR", [lane, k])
                        sums[vi] = sums[vi] + T.cast(data[vk], "int32") * T.cast(
                            weights[vk // group, vi, vk % group], "int32"
                        )

    return description


def _implement(instruction: DotInstruction) -> Any:
    """Return the intrinsic's implementation: it adds one group of products after another.

    Each group of the data is broadcast to all lanes.
    """
    lanes, group, data_type = instruction.lanes, instruction.group, instruction.data
    steps, depth = instruction.steps, instruction.depth

    @T.prim_func(s_tir=True)
    def implementation(
        data: T.Buffer((depth,), data_type, offset_factor=1),
        weights: T.Buffer((steps, lanes, group), "int8", offset_factor=1),
        sums: T.Buffer((lanes,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:lanes], data[0:depth], weights[0:steps, 0:lanes, 0:group])
            T.writes(sums[0:lanes])
            sums[T.ramp(T.int32(0), 1, lanes)] = add_steps(
                instruction,
                sums.vload([0], f"int32x{lanes}"),
                data.vload([0], f"{data_type}x{depth}"),
                [weights.vload([step, 0, 0], f"int8x{lanes * group}") for step in range(steps)],
            )

    return implementation


def add_steps(instruction: DotInstruction, sums: Any, data: Any, weights: Sequence[Any]) -> Any:
    """Return the sums plus the products of the data and the weights in one use of the intrinsic.

    ``sums`` has one int32 per lane, ``data`` has `depth` elements, and ``weights`` has one vector per step.
    """
    for step, values in enumerate(weights):
        sums = _add_products(instruction, sums, _spread(instruction, data, step), values)
    return sums


def add_halves(instruction: DotInstruction, sums: Any, data: Any, weights: Any) -> Any:
    """Return the int16 sums plus the products of four bytes of data and the weights, added up in pairs.

    Each lane has two sums. The data are halves of bytes (4 bits), so that the instruction `halves` is exact.
    """
    name, lanes = T.llvm_lookup_intrinsic_id(instruction.halves), instruction.lanes
    spread = T.reinterpret(T.broadcast(T.reinterpret(data, dtype="int32"), lanes), dtype=f"uint8x{4 * lanes}")
    return sums + T.call_llvm_pure_intrin(name, spread, weights, dtype=f"int16x{2 * lanes}")


def widen_halves(instruction: DotInstruction, sums: Any, factor: int) -> Any:
    """Return one int32 for each lane: the sum of the lane's two int16, each multiplied by the factor."""
    name, lanes = T.llvm_lookup_intrinsic_id(instruction.llvm), instruction.lanes
    factors = T.broadcast(T.int16(factor), 2 * lanes)
    return T.call_llvm_pure_intrin(name, sums, factors, dtype=f"int32x{lanes}")


def _spread(instruction: DotInstruction, data: Any, step: int) -> Any:
    """Return the group of the data that belongs to the step, broadcast to all lanes."""
    lanes = instruction.lanes
    whole = f"int{8 * instruction.group * (2 if instruction.data == 'int16' else 1)}"
    if instruction.steps == 1:
        spread = T.broadcast(T.reinterpret(data, dtype=whole), lanes)
    else:  # LLVM turns this into an indexed operand of the instruction
        groups = T.reinterpret(data, dtype=f"{whole}x{instruction.steps}")
        spread = T.Shuffle([groups] * (lanes // instruction.steps), [step] * lanes)
    return T.reinterpret(spread, dtype=f"{instruction.data}x{lanes * instruction.group}")


def _add_products(instruction: DotInstruction, sums: Any, data: Any, weights: Any) -> Any:
    name, sums_type = T.llvm_lookup_intrinsic_id(instruction.llvm), f"int32x{instruction.lanes}"
    whole = f"int16x{instruction.lanes * instruction.group}"
    if instruction.data == "int16":
        return sums + T.call_llvm_pure_intrin(name, data, T.cast(weights, whole), dtype=sums_type)
    if instruction.group == 2:  # 8-bit factors give 16-bit products; neighbouring products are added to 32 bits
        products = T.cast(weights, whole) * T.cast(data, whole)
        halves = (T.Shuffle([products], list(range(first, first + 8))) for first in (0, 8))
        added = [T.call_llvm_pure_intrin(name, half, dtype="int32x4") for half in halves]
        return sums + T.Shuffle(added, list(range(8)))
    # The instruction adds to the sums itself. ARM's sdot can index only its second operand.
    factors = (weights, data) if instruction.data == "int8" else (data, weights)
    return T.call_llvm_pure_intrin(name, sums, *factors, dtype=sums_type)
