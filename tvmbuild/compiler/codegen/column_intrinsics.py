"""The tensor intrinsic for sums over columns.

Each lane has one word of four bytes from each operand, and one instruction adds the four products to the lane's sum.
"""

# mypy: disable-error-code="valid-type, untyped-decorator"
# TVM parses these annotations; Python does not evaluate them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T  # noqa: N812 - as its scripts are written

from tvmbuild.compiler.machine.dot_instructions import DotInstruction

BYTES = 4
"""The number of bytes in a word; the first byte is in the lowest bits."""


def join_bytes(values: Sequence[Any]) -> Any:
    """Join up to four unsigned bytes to one uint32 word; the first byte is in the lowest bits."""
    whole = values[0].astype("uint32")
    for place, value in enumerate(values[1:], 1):
        whole = whole | value.astype("uint32") << tirx.const(8 * place, "uint32")
    return whole


def multiply_words(data: Any, weights: Any) -> Any:
    """Return the int32 dot product of two words of four bytes.

    ``data`` is a uint32 of four uint8 and ``weights`` an int32 of four int8.
    """
    total = None
    for place in range(BYTES):
        number = (data >> tirx.const(8 * place, "uint32") & tirx.const(255, "uint32")).astype("int32")
        weight = weights << tirx.const(8 * (BYTES - 1 - place), "int32") >> tirx.const(8 * (BYTES - 1), "int32")
        total = number * weight if total is None else total + number * weight
    return total


def register_columns(instruction: DotInstruction) -> None:
    """Register the instruction's intrinsic `of_columns`.

    Each lane of its vectors adds the dot product of four bytes of data and four of weights to its sum.
    """
    lanes, name = instruction.lanes, T.llvm_lookup_intrinsic_id(instruction.llvm)
    bytes_type = f"x{BYTES * lanes}"

    @T.prim_func(s_tir=True)
    def description(
        data: T.Buffer((lanes,), "uint32", offset_factor=1),
        weights: T.Buffer((lanes,), "int32", offset_factor=1),
        sums: T.Buffer((lanes,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:lanes], data[0:lanes], weights[0:lanes])
            T.writes(sums[0:lanes])
            for lane in T.serial(0, lanes):
                with T.sblock("update"):
                    at = T.axis.remap("S", [lane])
                    sums[at] = sums[at] + multiply_words(data[at], weights[at])

    @T.prim_func(s_tir=True)
    def implementation(
        data: T.Buffer((lanes,), "uint32", offset_factor=1),
        weights: T.Buffer((lanes,), "int32", offset_factor=1),
        sums: T.Buffer((lanes,), "int32", offset_factor=1),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:lanes], data[0:lanes], weights[0:lanes])
            T.writes(sums[0:lanes])
            sums[T.ramp(T.int32(0), 1, lanes)] = T.call_llvm_pure_intrin(
                name,
                sums.vload([0], f"int32x{lanes}"),
                T.reinterpret(data.vload([0], f"uint32x{lanes}"), dtype=f"uint8{bytes_type}"),
                T.reinterpret(weights.vload([0], f"int32x{lanes}"), dtype=f"int8{bytes_type}"),
                dtype=f"int32x{lanes}",
            )

    TensorIntrin.register(instruction.of_columns, description, implementation, override=True)
