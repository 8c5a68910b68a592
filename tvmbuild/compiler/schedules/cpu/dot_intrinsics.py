"""TVM's tensor intrinsics of the dot instructions: what a schedule and a record that names them need."""

from __future__ import annotations

from functools import cache

from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

from tvmbuild.compiler.dot_instructions import GROUP, INSTRUCTIONS, DotInstruction


@cache
def register_intrinsics() -> None:
    """Make all of them known, once in a process."""
    for instruction in INSTRUCTIONS:
        TensorIntrin.register(instruction.name, _describe(instruction), _implement(instruction), override=True)


def _describe(instruction: DotInstruction):  # type: ignore[no-untyped-def]
    lanes = instruction.lanes

    @T.prim_func(s_tir=True)
    def description(
        data: T.Buffer((GROUP,), "uint8", offset_factor=1),
        weights: T.Buffer((lanes, GROUP), "int8", offset_factor=1),
        sums: T.Buffer((lanes,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:lanes], data[0:GROUP], weights[0:lanes, 0:GROUP])
            T.writes(sums[0:lanes])
            for lane in T.serial(0, lanes):
                for k in T.serial(0, GROUP):
                    with T.sblock("update"):
                        vi, vk = T.axis.remap("SR", [lane, k])
                        sums[vi] = sums[vi] + T.cast(data[vk], "int32") * T.cast(weights[vi, vk], "int32")

    return description


def _implement(instruction: DotInstruction):  # type: ignore[no-untyped-def]
    lanes, llvm = instruction.lanes, instruction.llvm
    data_type, weights_type, sums_type = f"uint8x{4 * lanes}", f"int8x{4 * lanes}", f"int32x{lanes}"

    @T.prim_func(s_tir=True)
    def implementation(
        data: T.Buffer((GROUP,), "uint8", offset_factor=1),
        weights: T.Buffer((lanes, GROUP), "int8", offset_factor=1),
        sums: T.Buffer((lanes,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:lanes], data[0:GROUP], weights[0:lanes, 0:GROUP])
            T.writes(sums[0:lanes])
            sums[T.ramp(T.int32(0), 1, lanes)] = T.call_llvm_pure_intrin(
                T.llvm_lookup_intrinsic_id(llvm),
                sums.vload([0], sums_type),
                T.reinterpret(
                    T.broadcast(T.reinterpret(data.vload([0], "uint8x4"), dtype="int32"), lanes), dtype=data_type
                ),
                weights.vload([0, 0], weights_type),
                dtype=sums_type,
            )

    return implementation
