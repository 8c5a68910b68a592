"""Kernels that look up each byte of a tensor in a table of 256 entries, dozens of bytes at once, by CPU shuffles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.target import codegen
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import OPAQUE, int64, wide
from tvmbuild.compiler.machine.machine import CHUNKS_PER_THREAD, Machine

ENTRIES = 256
_BYTES_PER_THREAD = 1 << 17
"""The number of bytes whose lookup takes about as long as the start of a thread."""
Load = Callable[[int, str], Any]
"""A function from an index in the table and a vector type to the vector that is loaded there."""


@dataclass(frozen=True)
class Lookup:
    """A method to look up several bytes at once."""

    features: frozenset[str]
    """The CPU features that the method needs, by their names in LLVM."""
    lanes: int
    look_up: Callable[[Load, Any], Any]
    """A function from a loader of the table and a vector of bytes to the vector of their entries."""


def find_lookup(target: tvm.target.Target) -> Lookup | None:
    """Return the fastest lookup method of a CPU target, or None for GPUs and for CPUs without one."""
    if str(target.kind.name) != "llvm":
        return None
    return choose_lookup({str(name) for name in codegen.llvm_get_cpu_features(target)})


def choose_lookup(features: AbstractSet[str]) -> Lookup | None:
    """Return the fastest lookup method for a CPU with these features, or None if they suffice for no method."""
    return next((each for each in LOOKUPS if each.features <= features), None)


def write_lookup(shape: Sequence[int], types: tuple[str, str], lookup: Lookup, machine: Machine) -> tirx.PrimFunc:
    """Write the function from a tensor of bytes and a table of 256 uint8 to a tensor of bytes.

    ``shape`` must have at least ``lookup.lanes`` elements. ``types`` are the dtypes of the bytes that are read and
    written, uint8 or int8; the bits of a byte are its index in the table.
    """
    total, lanes = math.prod(shape), lookup.lanes
    chunks = CHUNKS_PER_THREAD * machine.threads if machine.threads > 1 and total >= _BYTES_PER_THREAD else 1
    each = math.ceil(total / (lanes * chunks))
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("lookup")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE})
        data = T.arg("data", T.buffer(wide(*shape), types[0], layout=None))
        table = T.arg("table", T.buffer(wide(ENTRIES), "uint8", layout=None))
        out = T.arg("out", T.buffer(wide(*shape), types[1], layout=None))
        source = T.decl_buffer(wide(total), "uint8", data=data.data, layout=None)
        made = T.decl_buffer(wide(total), "uint8", data=out.data, layout=None)

        def load(place: int, dtype: str) -> Any:
            return table.vload(wide(place), dtype)

        with T.parallel(int64(chunks)) as chunk, T.serial(int64(each)) as step:
            # The last vector overlaps the one before if the bytes do not fill it.
            at = tirx.Min((chunk * each + step) * lanes, int64(total - lanes))
            values = lookup.look_up(load, source.vload([at], f"uint8x{lanes}"))
            T.buffer_store(made, values, [tirx.Ramp(at, int64(1), lanes)])
    return builder.get()


def _by_bytes(load: Load, at: Any) -> Any:
    """Look up bytes in two registers of the table at once, by indices of seven bits (AVX-512 VBMI)."""
    low, high = (
        _call(
            "llvm.x86.avx512.vpermi2var.qi.512", "uint8x64", load(first, "uint8x64"), at, load(first + 64, "uint8x64")
        )
        for first in (0, 128)
    )
    return tirx.Select(at < _spread(128, "uint8", 64), low, high)


def _by_words(load: Load, at: Any) -> Any:
    """Look up pairs of entries, and choose one entry by the last bit of the index (AVX-512 BW)."""
    index = tirx.Cast("uint16x32", at)
    pair = index >> _spread(1, "uint16", 32)
    quarters = [tirx.reinterpret("uint16x32", load(first, "uint8x64")) for first in range(0, ENTRIES, 64)]
    low, high = (
        _call("llvm.x86.avx512.vpermi2var.hi.512", "uint16x32", quarters[first], pair, quarters[first + 1])
        for first in (0, 2)
    )
    both = tirx.Select(pair < _spread(64, "uint16", 32), low, high)
    return tirx.Cast("uint8x32", both >> ((index & _spread(1, "uint16", 32)) << _spread(3, "uint16", 32)))


def _by_quarters(load: Load, at: Any) -> Any:
    """Look up bytes in four registers of the table at once; an index beyond these gives zero (NEON)."""
    made = None
    for first in range(0, ENTRIES, 64):
        quarter = [load(first + 16 * place, "uint8x16") for place in range(4)]
        found = _call("llvm.aarch64.neon.tbl4.v16i8", "uint8x16", *quarter, at - _spread(first, "uint8", 16))
        made = found if made is None else made | found
    return made


def _call(name: str, dtype: str, *arguments: Any) -> Any:
    return T.call_llvm_pure_intrin(T.llvm_lookup_intrinsic_id(name), *arguments, dtype=dtype)


def _spread(number: int, dtype: str, lanes: int) -> Any:
    return tirx.Broadcast(tirx.IntImm(dtype, number), lanes)


LOOKUPS = (
    Lookup(frozenset({"avx512vbmi"}), 64, _by_bytes),
    Lookup(frozenset({"avx512bw"}), 32, _by_words),
    Lookup(frozenset({"neon", "v8a"}), 16, _by_quarters),
)
"""The lookup methods, the fastest first."""
