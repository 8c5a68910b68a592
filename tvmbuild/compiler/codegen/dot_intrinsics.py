"""TVM's tensor intrinsics of the dot instructions: what a schedule and a record that names them need."""

# mypy: disable-error-code="valid-type, untyped-decorator"
# TVM reads these annotations, not Python.

from __future__ import annotations

from functools import cache
from typing import Any

from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T  # noqa: N812 - as its scripts are written

from tvmbuild.compiler.dot_instructions import INSTRUCTIONS, DotInstruction


@cache
def register_intrinsics() -> None:
    """Make all of them known, once in a process."""
    for instruction in INSTRUCTIONS:
        TensorIntrin.register(instruction.name, _describe(instruction), _implement(instruction), override=True)


def _describe(instruction: DotInstruction) -> Any:
    lanes, group, data_type = instruction.lanes, instruction.group, instruction.data

    @T.prim_func(s_tir=True)
    def description(
        data: T.Buffer((group,), data_type, offset_factor=1),
        weights: T.Buffer((lanes, group), "int8", offset_factor=1),
        sums: T.Buffer((lanes,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:lanes], data[0:group], weights[0:lanes, 0:group])
            T.writes(sums[0:lanes])
            for lane in T.serial(0, lanes):
                for k in T.serial(0, group):
                    with T.sblock("update"):
                        vi, vk = T.axis.remap("SR", [lane, k])
                        sums[vi] = sums[vi] + T.cast(data[vk], "int32") * T.cast(weights[vi, vk], "int32")

    return description


def _implement(instruction: DotInstruction) -> Any:
    """Four bytes of data go to all lanes at once."""
    lanes, group, data_type, llvm = instruction.lanes, instruction.group, instruction.data, instruction.llvm
    whole, sums_type = f"{data_type}x{lanes * group}", f"int32x{lanes}"

    def add_products(sums: Any, data: Any, weights: Any) -> Any:
        name = T.llvm_lookup_intrinsic_id(llvm)
        if data_type == "uint8":  # the instruction adds to the sums
            return T.call_llvm_pure_intrin(name, sums, data, weights, dtype=sums_type)
        return sums + T.call_llvm_pure_intrin(name, data, T.cast(weights, whole), dtype=sums_type)

    @T.prim_func(s_tir=True)
    def implementation(
        data: T.Buffer((group,), data_type, offset_factor=1),
        weights: T.Buffer((lanes, group), "int8", offset_factor=1),
        sums: T.Buffer((lanes,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:lanes], data[0:group], weights[0:lanes, 0:group])
            T.writes(sums[0:lanes])
            sums[T.ramp(T.int32(0), 1, lanes)] = add_products(
                sums.vload([0], sums_type),
                T.reinterpret(
                    T.broadcast(T.reinterpret(data.vload([0], f"{data_type}x{group}"), dtype="int32"), lanes),
                    dtype=whole,
                ),
                weights.vload([0, 0], f"int8x{lanes * group}"),
            )

    return implementation
