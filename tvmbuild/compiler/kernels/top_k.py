"""TopK on GPUs: chunks of a row are sorted in shared memory, then the sorted runs are merged.

A chunk's elements are sorted as pairs of a key and the element's index. The key is an integer: the earlier an element
comes in the result, the smaller is its key. Later runs have larger indices. Merging therefore compares only keys, and
of equal keys that of the earlier run comes first. As in ONNX Runtime, NaN is the largest value, and the sign of a zero
does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int32, int64, wide
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.loops import each_thread, where

CHUNK = 1024
"""The largest number of elements that a block sorts. They take 12 kB of shared memory with keys of 64 bits, and every
Vulkan device has 16 kB."""
_NARROW = ("float32", "float16", "int32", "int16", "int8", "uint16", "uint8")
_INFINITY = 0x7F800000
"""The bits of infinity as a float32."""
TYPES = (*_NARROW, "int64", "uint32")
"""The dtypes of elements that the kernels support. Our Vulkan code cannot read the bits of a float64 as int64."""


@dataclass(frozen=True)
class TopK:
    """A TopK: the ``k`` largest or smallest elements, in order, of each of ``rows`` rows of ``length`` elements."""

    rows: int
    length: int
    k: int
    dtype: str
    largest: bool

    @property
    def key(self) -> str:
        """The dtype of the keys."""
        return "int32" if self.dtype in _NARROW else "int64"

    @property
    def chunk(self) -> int:
        """The number of elements that a block sorts, a power of two."""
        return min(CHUNK, 1 << max(1, (self.length - 1).bit_length()))

    @property
    def runs(self) -> int:
        """The number of chunks of a row; each chunk becomes a sorted run."""
        return -(-self.length // self.chunk)


@dataclass(frozen=True)
class Merge:
    """One round of merging: ``fan`` neighbouring runs of a row, each of ``length`` elements, become one of ``kept``."""

    runs: int
    """The number of runs of a row before the merge."""
    length: int
    fan: int
    kept: int

    @property
    def groups(self) -> int:
        """The number of runs of a row after the merge."""
        return -(-self.runs // self.fan)


def write_sort(form: TopK, most_threads: int) -> tirx.PrimFunc:
    """Return the function that sorts the chunks of all rows.

    Its outputs are the sorted runs as keys and indices, or the result of TopK if a row is a single chunk.
    """
    chunk = form.chunk
    threads = min(chunk // 2, 1 << (most_threads.bit_length() - 1))
    inputs = [((form.rows, form.length), form.dtype)]
    with (
        begin_kernel("topk_chunks", inputs, _list_outputs(form, form.runs, min(form.k, chunk))) as (builder, buffers),
        T.thread_binding(*wide(0, form.rows * form.runs), thread="blockIdx.x") as block,
        T.thread_binding(int32(0), int32(threads), thread="threadIdx.x") as thread,
    ):
        data, *outputs = buffers
        keys, indices = (T.alloc_buffer([chunk], each, scope="shared", layout=None) for each in (form.key, "int32"))
        row, run = T.Bind(block // form.runs), T.Bind(block % form.runs)
        for step in range(chunk // threads):
            at = T.Bind(thread + int32(step * threads))
            index = T.Bind(tirx.Cast("int32", run) * int32(chunk) + at)
            place = tirx.Min(index, int32(form.length - 1)).astype("int64")
            key = _make_key(form, T.Bind(data[row * form.length + place]))
            last = tirx.max_value(form.key)
            key = key if form.length % chunk == 0 else tirx.Select(index < int32(form.length), key, last)
            T.buffer_store(keys, key, [at])
            T.buffer_store(indices, index, [at])
        _sort(keys, indices, (thread, threads), chunk)
        kept = min(form.k, chunk)
        for step in range(-(-kept // threads)):
            at = T.Bind(thread + int32(step * threads))
            with where(at < int32(kept), always=(step + 1) * threads <= kept):
                found = (keys[at], T.Bind(indices[at]))
                _write_out(form, outputs, block * kept + at.astype("int64"), found, (data, row))
    return mark_scheduled(builder.get())


def write_merge(form: TopK, merge: Merge) -> tirx.PrimFunc:
    """Return the function that merges runs into longer runs.

    In the last round, the function also takes the rows, and its outputs are the result of TopK.
    A thread computes the place of one element: its place in its own run plus, for each other run, the number of
    elements that come before it.
    """
    elements = form.rows * merge.groups * merge.fan * merge.length
    shape = (form.rows, merge.runs, merge.length)
    last = [((form.rows, form.length), form.dtype)] if merge.groups == 1 else []
    inputs = [(shape, form.key), (shape, "int32"), *last]
    with (
        begin_kernel("topk_merge", inputs, _list_outputs(form, merge.groups, merge.kept)) as (builder, buffers),
        each_thread(elements) as number,
    ):
        keys, indices, *others = buffers
        outputs = others[len(last) :]
        size = merge.fan * merge.length
        group = T.Bind(number // size)
        row, first = T.Bind(group // merge.groups), T.Bind(group % merge.groups * merge.fan)
        run, at = T.Bind(number % size // merge.length), T.Bind(number % merge.length)
        source = (row * merge.runs + first) * merge.length
        start = T.Bind(source)
        is_there = first + run < int64(merge.runs)
        with where(is_there, always=merge.runs % merge.fan == 0):
            key = T.Bind(keys[start + run * merge.length + at])
            rank = T.alloc_buffer([1], "int32", scope="local", layout=None)
            T.buffer_store(rank, at.astype("int32"), [0])
            with T.serial(int64(merge.fan)) as other:
                wanted = tirx.all(other != run, first + other < int64(merge.runs), rank[0] < int32(merge.kept))
                with T.If(wanted), T.Then():
                    _count(merge, rank, (keys, start + other * merge.length), (key, other < run))
            with T.If(rank[0] < int32(merge.kept)), T.Then():
                found = (key, T.Bind(indices[start + run * merge.length + at]))
                target = group * merge.kept + rank[0].astype("int64")
                _write_out(form, outputs, target, found, (others[0], row))
        if merge.runs % merge.fan:  # a last group of fewer runs leaves places that no other thread writes
            with T.If(tirx.all(tirx.Not(is_there), number % size < int64(merge.kept))), T.Then():
                padding = (tirx.max_value(form.key), int32(form.length))
                _write_out(form, outputs, group * merge.kept + number % size, padding, (others[0], row))
    return mark_scheduled(builder.get())


def _list_outputs(form: TopK, runs: int, kept: int) -> list[tuple[tuple[int, ...], str]]:
    if runs == 1:
        return [((form.rows, form.k), form.dtype), ((form.rows, form.k), "int64")]
    return [((form.rows, runs, kept), form.key), ((form.rows, runs, kept), "int32")]


def _write_out(form: TopK, outputs: Sequence[Any], at: Any, found: tuple[Any, Any], rows: tuple[Any, Any]) -> None:
    """Write a key and its index at ``at``; if the outputs are the result of TopK, write the element and its index."""
    (key, index), (data, row) = found, rows
    if str(outputs[1].dtype) == "int64":
        key, index = data[row * form.length + index.astype("int64")], index.astype("int64")
    T.buffer_store(outputs[0], key, [at])
    T.buffer_store(outputs[1], index, [at])


def _make_key(form: TopK, value: Any) -> Any:
    """Return the key of an element: the earlier the element comes in the result, the smaller is this integer."""
    if "float" not in form.dtype:
        ordered = value.astype(form.key)
        return tirx.bitwise_not(ordered) if form.largest else ordered
    bits = T.Bind(tirx.reinterpret("int32", value.astype("float32")))
    size = T.Bind(bits & tirx.max_value("int32"))
    signed = T.Bind(tirx.Select(bits < int32(0), -size, size))  # of both zeros 0
    ordered = T.Bind(tirx.Select(size > int32(_INFINITY), tirx.max_value("int32"), signed))
    return -ordered if form.largest else ordered


def _sort(keys: Any, indices: Any, threads: tuple[Any, int], chunk: int) -> None:
    """Sort a chunk of pairs (key, index) by a bitonic network in which every exchange puts the smaller pair first."""
    thread, count = threads
    size = 2
    while size <= chunk:
        stride, mirrored = size // 2, True
        while stride:
            for step in range(chunk // 2 // count):
                pair = T.Bind(thread + int32(step * count))
                within = pair % int32(stride)
                low = T.Bind(pair // int32(stride) * int32(2 * stride) + within)
                high = T.Bind(low + int32(2 * stride - 1) - 2 * within if mirrored else low + int32(stride))
                _exchange(keys, indices, low, high)
            stride, mirrored = stride // 2, False
        size *= 2


def _exchange(keys: Any, indices: Any, low: Any, high: Any) -> None:
    key, other, index, other_index = (T.Bind(each) for each in (keys[low], keys[high], indices[low], indices[high]))
    swaps = T.Bind(tirx.any(other < key, tirx.all(other == key, other_index < index)))
    T.buffer_store(keys, tirx.Select(swaps, other, key), [low])
    T.buffer_store(keys, tirx.Select(swaps, key, other), [high])
    T.buffer_store(indices, tirx.Select(swaps, other_index, index), [low])
    T.buffer_store(indices, tirx.Select(swaps, index, other_index), [high])


def _count(merge: Merge, rank: Any, run: tuple[Any, Any], element: tuple[Any, Any]) -> None:
    """Add to ``rank`` the number of elements of another run that come before an element, found by a binary search.

    Equal elements of the run come before the element if the run is an earlier one.
    """
    (keys, start), (key, is_earlier) = run, element
    count = T.alloc_buffer([1], "int32", scope="local", layout=None)
    T.buffer_store(count, int32(0), [0])
    step = 1 << (merge.length.bit_length() - 1)
    while step:
        probed = count[0] + int32(step - 1)
        at = start + tirx.Min(probed, int32(merge.length - 1)).astype("int64")
        there = T.Bind(keys[at])
        before = tirx.any(there < key, tirx.all(is_earlier, there == key))
        more = tirx.all(probed < int32(merge.length), before)
        T.buffer_store(count, count[0] + tirx.Select(more, int32(step), int32(0)), [0])
        step //= 2
    T.buffer_store(rank, rank[0] + count[0], [0])
