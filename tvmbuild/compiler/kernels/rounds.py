"""Rounds that take the best candidate again and again, and drop those that it rules out: greedy suppression.

That needs no sort, and has no limit on the number of candidates. Of equal scores the first candidate wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.kernels.buffers import Form
from tvmbuild.compiler.kernels.loops import THREADS, list_partners
from tvmbuild.compiler.kernels.vectors import local


class Contest(Protocol):
    """The rules of rounds."""

    def emit(self, result: Any, winner: Any) -> None:
        """Write a winner as a result. Only one thread does it for a result."""

    def finish(self, count: Any) -> None:
        """Write the number of results so far. The first thread does it after each round."""

    def rules_out(self, winner: Any, other: Any) -> Any:
        """Return whether a winner drops another candidate. The condition may read values that it writes before."""


def count_places(count: int) -> int:
    """Return the number of places that rounds of ``count`` candidates need in each array of their memory."""
    return -(-count // THREADS) * THREADS


def list_memory(*shape: int) -> list[Form]:
    """Return the forms of the memory of rounds: scores, and the candidates that they belong to."""
    return [(shape, "float32"), (shape, "int32")]


class Rounds:
    """The candidates that are left. One thread of a CPU has all of them; the threads of a GPU's block share them.

    A thread owns every 256th candidate, and keeps those of them that are left in places of its own. It also owns every
    256th result, so that all writes of a result are in one thread.
    """

    def __init__(self, count: int, memory: tuple[Any, Any], thread: Any = None, begin: Any = 0) -> None:
        """Begin without candidates. ``begin`` is the first place in the memory; without a ``thread`` it is a CPU's."""
        self.count, self.thread, self.begin = count, thread, begin
        self.work, self.places = memory
        self.step = 1 if thread is None else THREADS
        self.first = int64(0) if thread is None else thread
        self.live, self.best, self.highest = local(1, "int32"), local(1, "int32"), local(1)
        if thread is not None:
            self.shared_scores, self.shared_places = (
                T.alloc_buffer([THREADS], each, scope="shared", layout=None) for each in ("float32", "int32")
            )

    def each_own(self, count: int, write: Callable[[Any], None]) -> None:
        """Write a loop over the numbers below ``count`` that the thread owns."""
        with T.serial(int64(-(-count // self.step))) as step:
            number = T.Bind(step * self.step + self.first)
            with T.If(number < int64(count)), T.Then():
                write(number)

    def keep_likely(self, read: Callable[[Any], tuple[Any, Any]]) -> Any:
        """Keep the candidates for which ``read`` returns (score, True); return their number."""
        T.buffer_store(self.live, int32(0), [0])
        self._forget_best()

        def keep(candidate: Any) -> None:
            score, likely = read(candidate)
            score = T.Bind(score)
            with T.If(likely), T.Then():
                self._keep(score, candidate.astype("int32"))

        self.each_own(self.count, keep)
        return self._add_up()

    def run(self, limit: Any, contest: Contest) -> None:
        """Write the rounds, at most ``limit``."""
        with T.serial(limit) as result:
            self._share_best()
            found = T.Bind(self.best[0] < int32(self.count))
            winner = T.Bind(tirx.Min(self.best[0], int32(self.count - 1)).astype("int64"))
            with T.If(tirx.all(found, result % int64(self.step) == self.first)), T.Then():
                contest.emit(result, winner)
            with T.If(tirx.all(found, self.first == int64(0))), T.Then():
                contest.finish(result + int64(1))
            self._drop(winner, found, contest)

    def _drop(self, winner: Any, found: Any, contest: Contest) -> None:
        """Drop the winner and the candidates that it rules out, close the gaps, and find the best of the others."""
        count = T.Bind(self.live[0].astype("int64"))
        T.buffer_store(self.live, int32(0), [0])
        self._forget_best()
        with T.serial(count) as index:
            place = T.Bind(self._place(index))
            candidate = T.Bind(self.places[place])
            # Two conditions: candidates are read only where they can matter.
            is_other = tirx.all(found, candidate.astype("int64") != winner)
            with T.If(is_other), T.Then():  # noqa: SIM117 - the second condition writes code into the first
                with T.If(tirx.Not(contest.rules_out(winner, candidate.astype("int64")))), T.Then():
                    self._keep(T.Bind(self.work[place]), candidate)

    def _keep(self, score: Any, candidate: Any) -> None:
        place = T.Bind(self._place(self.live[0].astype("int64")))
        T.buffer_store(self.work, score, [place])
        T.buffer_store(self.places, candidate, [place])
        T.buffer_store(self.live, self.live[0] + int32(1), [0])
        higher = tirx.any(score > self.highest[0], tirx.all(score == self.highest[0], candidate < self.best[0]))
        with T.If(higher), T.Then():
            T.buffer_store(self.highest, score, [0])
            T.buffer_store(self.best, candidate, [0])

    def _place(self, index: Any) -> Any:
        return self.begin + index * self.step + self.first

    def _forget_best(self) -> None:
        T.buffer_store(self.highest, float32(-math.inf), [0])
        T.buffer_store(self.best, int32(self.count), [0])

    def _add_up(self) -> Any:
        """Return the number of candidates of all threads."""
        if self.thread is None:
            return T.Bind(self.live[0])
        total = local(1, "int32")
        T.buffer_store(total, self.live[0], [0])
        for partner in list_partners(self.thread):
            T.buffer_store(self.shared_places, total[0], [self.thread])
            other = T.Bind(self.shared_places[partner])
            T.buffer_store(total, total[0] + other, [0])
        return T.Bind(total[0])

    def _share_best(self) -> None:
        """Let all threads have the best candidate of all of them."""
        if self.thread is None:
            return
        for partner in list_partners(self.thread):
            T.buffer_store(self.shared_scores, self.highest[0], [self.thread])
            T.buffer_store(self.shared_places, self.best[0], [self.thread])
            score, candidate = T.Bind(self.shared_scores[partner]), T.Bind(self.shared_places[partner])
            own = self.highest[0]
            better = T.Bind(tirx.any(score > own, tirx.all(score == own, candidate < self.best[0])))
            T.buffer_store(self.best, tirx.Select(better, candidate, self.best[0]), [0])
            T.buffer_store(self.highest, tirx.Select(better, score, own), [0])
