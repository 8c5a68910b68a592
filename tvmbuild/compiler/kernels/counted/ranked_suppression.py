"""The kernels of ONNX's NonMaxSuppression on GPUs: boxes in the order of their scores, and a bit for each pair of them.

The first kernel lists the boxes that take part, and the second one ranks them. Then there are two kernels for each tile
of the ranked boxes, usually one tile: many blocks find which boxes of the tile overlap which, 32 bits a thread, and one
block for each batch and class walks through the bits, 32 boxes in a step. Of equal scores the first box wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.counted.overlaps import SIDES, Overlaps
from tvmbuild.compiler.kernels.counted.suppression import Suppression
from tvmbuild.compiler.kernels.loops import THREADS, add_up_before, each_block, each_thread
from tvmbuild.compiler.kernels.vectors import local

_BITS = 32
"""The number of bits of a word."""
_MOST_BYTES = 16 << 20
"""The most memory that the bits of a tile take."""


@dataclass(frozen=True)
class RankedSuppression:
    """A suppression, and the division of its ranked boxes into tiles."""

    form: Suppression

    @property
    def side(self) -> int:
        """The number of boxes of a tile, a multiple of 256."""
        most = math.isqrt(8 * _MOST_BYTES // self.form.rows)
        return THREADS * max(1, min(most // THREADS, -(-self.form.boxes // THREADS)))

    @property
    def words(self) -> int:
        """The number of words with a bit for each box of a tile."""
        return self.side // _BITS

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return -(-self.form.boxes // self.side)

    @property
    def chunks(self) -> int:
        """The number of blocks that rank the boxes of a row."""
        return -(-self.form.boxes // THREADS)

    def list_outputs(self) -> list[Form]:
        """Return the forms of the results and of the kernels' memory.

        That has the boxes that take part, their scores and their number, each rank's box and corners, the ranks of the
        boxes that are kept, whether a box of the tile overlaps one that an earlier tile has kept, and the tile's bits.
        """
        rows, boxes = self.form.rows, self.form.boxes
        memory = [((rows, boxes), "int32"), ((rows, boxes), "float32"), ((rows,), "int32")]
        memory += [((rows, boxes), "int32"), ((rows, boxes, SIDES), "float32")]
        memory += [((rows, self.form.kept), "int32"), ((rows, self.side), "int32")]
        return [*self.form.list_results(), *memory, ((rows, self.side, self.words), "uint32")]


def write_ranked_suppression(form: Suppression) -> tirx.PrimFunc:
    """Return the function of a GPU; zeros are after the boxes that are kept."""
    ranked = RankedSuppression(form)
    with begin_kernel(form.name, form.list_inputs(), ranked.list_outputs()) as (builder, arguments):
        writer = _Writer(ranked, arguments)
        with each_block(form.rows) as (row, thread):
            writer.gather(row, thread)
        with each_block(form.rows * ranked.chunks) as (block, thread):
            writer.rank(T.Bind(block // ranked.chunks), T.Bind(block % ranked.chunks * THREADS), thread)
        with T.serial(int64(ranked.tiles)) as tile:
            with each_thread(form.rows * ranked.side * (ranked.words + 1)) as place:
                row = T.Bind(place // (ranked.side * (ranked.words + 1)))
                writer.compare(row, T.Bind(place % (ranked.side * (ranked.words + 1))), tile)
            with each_block(form.rows) as (row, thread):
                _Walk(writer, row, thread, tile).write()
    return mark_scheduled(builder.get())


def _bit(number: Any) -> Any:
    """Return a word with one bit."""
    return tirx.const(1, "uint32") << number.astype("uint32")


class _Writer:
    """The arguments of the function, and its first three kernels."""

    def __init__(self, ranked: RankedSuppression, arguments: Sequence[Any]) -> None:
        self.ranked, self.form = ranked, ranked.form
        self.boxes, self.scores, self.thresholds, self.limits = arguments[:4]
        self.results, self.counts, self.likely, self.likely_scores, self.totals = arguments[4:9]
        self.order, self.corners, self.kept, self.ruled_out, self.bits = arguments[9:]

    def gather(self, row: Any, thread: Any) -> None:
        """List the boxes of a row that take part, in any order; a thread looks at every 256th box."""
        begin = T.Bind(row * self.form.boxes)
        place = local(1, "int32")

        def each_likely(write: Callable[[Any, Any], None] | None = None) -> None:
            with T.serial(int64(self.ranked.chunks)) as step:
                box = T.Bind(step * THREADS + thread)
                with T.If(box < int64(self.form.boxes)), T.Then():
                    score = T.Bind(self.scores[begin + box])
                    with T.If(self._is_likely(score, box)), T.Then():
                        if write:
                            write(box, score)
                        T.buffer_store(place, place[0] + int32(1), [0])

        def keep(box: Any, score: Any) -> None:
            T.buffer_store(self.likely, box.astype("int32"), [begin + place[0].astype("int64")])
            T.buffer_store(self.likely_scores, score, [begin + place[0].astype("int64")])

        T.buffer_store(place, int32(0), [0])
        each_likely()
        first, total = add_up_before(place[0], thread)
        with T.If(thread == int64(0)), T.Then():
            T.buffer_store(self.totals, total, [row])
            T.buffer_store(self.counts, int64(0), [row])
        T.buffer_store(place, first, [0])
        each_likely(keep)

    def rank(self, row: Any, first: Any, thread: Any) -> None:
        """Write 256 boxes to their ranks: a box's rank is the number of boxes with better scores."""
        begin, place = T.Bind(row * self.form.boxes), T.Bind(first + thread)
        total = T.Bind(self.totals[row].astype("int64"))
        near = T.Bind(begin + tirx.Min(place, int64(self.form.boxes - 1)))
        own, box = T.Bind(self.likely_scores[near]), T.Bind(self.likely[near])
        found = local(1, "int32")
        T.buffer_store(found, int32(0), [0])
        scores, boxes = (T.alloc_buffer([THREADS], each, scope="shared", layout=None) for each in ("float32", "int32"))
        chunks = T.Bind(tirx.Select(first < total, (total + (THREADS - 1)) // THREADS, int64(0)))
        with T.serial(chunks) as chunk:
            start = T.Bind(chunk * THREADS)
            other = T.Bind(begin + tirx.Min(start + thread, total - 1))
            T.buffer_store(scores, self.likely_scores[other], [thread])
            T.buffer_store(boxes, self.likely[other], [thread])
            with T.serial(T.Bind(tirx.Min(total - start, int64(THREADS)))) as number:
                score = T.Bind(scores[number])
                better = tirx.any(score > own, tirx.all(score == own, boxes[number] < box))
                T.buffer_store(found, found[0] + better.astype("int32"), [0])
        with T.If(place < total), T.Then():
            rank = T.Bind(begin + found[0].astype("int64"))
            T.buffer_store(self.order, box, [rank])
            corners = self.form.read_box(self.boxes, row, box.astype("int64"))
            for side, value in enumerate(Overlaps().read(corners, 0, center=self.form.center)):
                T.buffer_store(self.corners, value, [rank * SIDES + side])

    def _is_likely(self, score: Any, box: Any) -> Any:
        """Return whether a box takes part. NaN never does, because it is no better than anything."""
        if self.form.threshold:
            return tirx.all(box < self.limits[1], score > self.thresholds[1])
        return tirx.all(box < self.limits[1], score >= float32(-math.inf))

    def compare(self, row: Any, place: Any, tile: Any) -> None:
        """Compare a box of a tile with 32 of its later boxes, or with the boxes that earlier tiles have kept."""
        words = self.ranked.words
        own, word = T.Bind(place // (words + 1)), T.Bind(place % (words + 1))
        first = T.Bind(tile * self.ranked.side)
        total = T.Bind(self.totals[row].astype("int64"))
        pair = Overlaps()
        with T.If(first + own < total), T.Then():
            begin = T.Bind(row * self.form.boxes)
            pair.keep(self._read(begin + first + own), 0)
            with T.If(word == int64(words)), T.Then():
                self._compare_kept(row, own, pair)
            later = tirx.all(word < int64(words), word * _BITS + (_BITS - 1) > own, first + word * _BITS < total)
            with T.If(later), T.Then():
                found = local(1, "uint32")
                T.buffer_store(found, tirx.const(0, "uint32"), [0])
                with T.serial(int64(_BITS)) as number:
                    other = T.Bind(word * _BITS + number)
                    with T.If(tirx.all(other > own, first + other < total)), T.Then():
                        pair.keep(self._read(begin + first + other), SIDES)
                        with T.If(pair.are_beyond(self.thresholds[0])), T.Then():
                            T.buffer_store(found, found[0] | _bit(number), [0])
                T.buffer_store(self.bits, found[0], [(row * self.ranked.side + own) * words + word])

    def _compare_kept(self, row: Any, own: Any, pair: Overlaps) -> None:
        found = local(1, "int32")
        T.buffer_store(found, int32(0), [0])
        with T.serial(T.Bind(self.counts[row])) as number:
            other = T.Bind(self.kept[row * self.form.kept + number].astype("int64"))
            pair.keep(self._read(row * self.form.boxes + other), SIDES)
            with T.If(pair.are_beyond(self.thresholds[0])), T.Then():
                T.buffer_store(found, int32(1), [0])
        T.buffer_store(self.ruled_out, found[0], [row * self.ranked.side + own])

    def _read(self, rank: Any) -> list[Any]:
        return [self.corners[rank * SIDES + side] for side in range(SIDES)]


class _Walk:
    """The walk of a block through the bits of a tile. All of its threads find the same boxes.

    A thread owns every 256th word of the boxes that are ruled out, and every 256th result.
    """

    def __init__(self, writer: _Writer, row: Any, thread: Any, tile: Any) -> None:
        self.writer, self.ranked, self.form = writer, writer.ranked, writer.form
        self.row, self.thread, self.tile = row, thread, tile
        self.state, self.diagonal = local(2, "uint32"), local(_BITS, "uint32")
        self.count = local(1, "int64")
        self.steps = -(-self.ranked.words // THREADS)
        self.out = local(self.steps, "uint32")
        self.shared = T.alloc_buffer([THREADS], "uint32", scope="shared", layout=None)

    def write(self) -> None:
        """Write the walk, and zeros after the results in the last tile."""
        self.first = T.Bind(self.tile * self.ranked.side)
        total = T.Bind(self.writer.totals[self.row].astype("int64"))
        self.left = T.Bind(tirx.Max(tirx.Min(total - self.first, int64(self.ranked.side)), int64(0)))
        self.used = T.Bind((self.left + (_BITS - 1)) // _BITS)
        T.buffer_store(self.count, self.writer.counts[self.row], [0])
        self._each_own_word(self._begin)
        with T.serial(self.used) as word:
            self._choose(word)
            self._each_own_word(lambda step, own: self._rule_out(word, step, own))
        with T.If(self.thread == int64(0)), T.Then():
            T.buffer_store(self.writer.counts, self.count[0], [self.row])
        with T.serial(int64(-(-self.form.kept // THREADS))) as step:
            result = T.Bind(step * THREADS + self.thread)
            is_last = self.tile == int64(self.ranked.tiles - 1)
            with T.If(tirx.all(is_last, result >= self.count[0], result < int64(self.form.kept))), T.Then():
                T.buffer_store(self.writer.results, int64(0), [self.row * self.form.kept + result])

    def _each_own_word(self, write: Callable[[Any, Any], None]) -> None:
        with T.serial(int64(self.steps)) as step:
            word = T.Bind(step * THREADS + self.thread)
            with T.If(word < self.used), T.Then():
                write(step, word)

    def _begin(self, step: Any, word: Any) -> None:
        """Begin with the boxes that overlap one of an earlier tile."""
        T.buffer_store(self.state, tirx.const(0, "uint32"), [0])
        with T.serial(int64(_BITS)) as number:
            box = T.Bind(word * _BITS + number)
            with T.If(box < self.left), T.Then():
                flag = self.writer.ruled_out[self.row * self.ranked.side + box].astype("uint32")
                T.buffer_store(self.state, self.state[0] | (flag << number.astype("uint32")), [0])
        T.buffer_store(self.out, self.state[0], [step])

    def _choose(self, word: Any) -> None:
        """Keep those of 32 boxes that no box before them rules out. State 0 has those ruled out, state 1 those kept."""
        T.buffer_store(self.shared, self.out[word // THREADS], [self.thread])
        T.buffer_store(self.state, self.shared[word % THREADS], [0])
        T.buffer_store(self.state, tirx.const(0, "uint32"), [1])
        with T.serial(int64(_BITS)) as number:  # the loads do not wait for each other
            box = T.Bind(tirx.Min(word * _BITS + number, self.left - 1))
            T.buffer_store(self.diagonal, self._bits(box, word), [number])
        with T.serial(int64(_BITS)) as number:
            box, bit = T.Bind(word * _BITS + number), _bit(number)
            is_free = (self.state[0] & bit) == tirx.const(0, "uint32")
            with T.If(tirx.all(box < self.left, is_free, self.count[0] < self.writer.limits[0])), T.Then():
                T.buffer_store(self.state, self.state[0] | self.diagonal[number], [0])
                T.buffer_store(self.state, self.state[1] | bit, [1])
                with T.If(self.count[0] % int64(THREADS) == self.thread), T.Then():
                    self._emit(self.count[0], self.first + box)
                T.buffer_store(self.count, self.count[0] + int64(1), [0])

    def _emit(self, result: Any, rank: Any) -> None:
        box = self.writer.order[self.row * self.form.boxes + rank]
        T.buffer_store(self.writer.results, box.astype("int64"), [self.row * self.form.kept + result])
        T.buffer_store(self.writer.kept, rank.astype("int32"), [self.row * self.form.kept + result])

    def _rule_out(self, word: Any, step: Any, own: Any) -> None:
        """Rule out the later boxes that overlap the boxes just kept."""
        with T.If(tirx.all(own > word, self.state[1] != tirx.const(0, "uint32"))), T.Then():
            T.buffer_store(self.state, self.out[step], [0])
            with T.serial(int64(_BITS)) as number:  # noqa: SIM117 - the condition is inside of the loop
                with T.If((self.state[1] & _bit(number)) != tirx.const(0, "uint32")), T.Then():
                    T.buffer_store(self.state, self.state[0] | self._bits(word * _BITS + number, own), [0])
            T.buffer_store(self.out, self.state[0], [step])

    def _bits(self, box: Any, word: Any) -> Any:
        return self.writer.bits[(self.row * self.ranked.side + box) * self.ranked.words + word]
