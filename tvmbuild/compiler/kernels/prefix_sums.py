"""The kernel of prefix sums on CPUs: each row of elements is added to the one before it, in vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.loops import each_vector
from tvmbuild.compiler.kernels.vectors import spread, store, take

CHUNK = 4096
"""The bytes of a row that a thread adds up at a time: it reads the sums of the row before from the nearest cache."""


@dataclass(frozen=True)
class PrefixSums:
    """Prefix sums over the middle axis of ``outer`` by ``length`` by ``inner`` elements."""

    outer: int
    length: int
    inner: int
    dtype: str
    exclusive: bool

    @property
    def count(self) -> int:
        """The number of all elements."""
        return self.outer * self.length * self.inner


def write_prefix_sums(form: PrefixSums, lanes: int) -> tirx.PrimFunc:
    """Return the function (data, sums) for vectors of ``lanes`` elements; elements are added in their order."""
    flat = ((form.count,), form.dtype)
    chunk = max(lanes, CHUNK * 8 // tvm.DataType(form.dtype).bits // lanes * lanes)
    whole, rest = divmod(form.inner, chunk)
    with begin_kernel("prefix_sums", [flat], [flat]) as (builder, (data, sums)):
        kernel = _Kernel(form, data, sums, lanes)
        if whole:
            with T.parallel(int64(form.outer * whole)) as place:
                kernel.write(T.Bind(place // whole), T.Bind(place % whole * chunk), chunk)
        if rest:
            with T.parallel(int64(form.outer)) as row:
                kernel.write(row, int64(whole * chunk), rest)
    return builder.get()


class _Kernel:
    def __init__(self, form: PrefixSums, data: Any, sums: Any, lanes: int) -> None:
        self.form, self.data, self.sums, self.lanes = form, data, sums, lanes

    def write(self, row: Any, begin: Any, size: int) -> None:
        """Write the sums of ``size`` neighbouring columns from ``begin`` on."""
        first = T.Bind(row * (self.form.length * self.form.inner) + begin)
        each_vector((0, size), self.lanes, lambda at, lanes: self._begin(first + at, lanes))
        if self.form.length > 1:
            with T.serial(int64(self.form.length - 1)) as step:
                before = T.Bind(first + step * self.form.inner)
                each_vector((0, size), self.lanes, lambda at, lanes: self._add(before + at, lanes))

    def _begin(self, at: Any, lanes: int) -> None:
        zero = spread(tirx.const(0, self.form.dtype), lanes)
        store(self.sums, zero if self.form.exclusive else take(self.data, at, lanes), at, lanes)

    def _add(self, before: Any, lanes: int) -> None:
        there = before if self.form.exclusive else before + self.form.inner
        total = take(self.sums, before, lanes) + take(self.data, there, lanes)
        store(self.sums, total, before + self.form.inner, lanes)
