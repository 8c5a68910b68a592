"""The kernel that makes probabilities of a classifier's scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.base.postprocess_specs import Activation
from tvmbuild.compiler.ir.expressions import float32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import THREADS, each_vector, list_partners, one_block
from tvmbuild.compiler.kernels.results.select import list_candidate_forms
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store

_LANES = 16
"""The elements of a vector of scores: one vector of AVX-512, two of AVX2, four of NEON."""


@dataclass(frozen=True)
class ClassScores:
    """The scores of ``count`` classes in one output of a network."""

    count: int
    output: Form
    activation: Activation


def write_classes(form: ClassScores, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from the scores to boxes of zeros [count, 4], probabilities [count] and classes [count].

    Its argument is the output. One thread of a CPU, or one block of a GPU, writes all classes.
    """
    with begin_kernel("classes", [form.output], list_candidate_forms(form.count)) as (builder, buffers):
        if on_gpu:
            with one_block() as thread:
                _write(form, _Block(form, buffers[0], thread), buffers)
        else:
            _write(form, _Vectors(form, buffers[0]), buffers)
    return mark_scheduled(builder.get())


def _write(form: ClassScores, parts: _Parts, buffers: Sequence[Any]) -> None:
    data, boxes, scores, classes = buffers
    highest, total = (None, None) if form.activation != "softmax" else parts.find_softmax()

    def write(at: Any, lanes: int) -> None:
        own = load(data, at, lanes)
        if form.activation == "softmax":
            own = tirx.exp(own - spread(highest, lanes)) / spread(total, lanes)
        elif form.activation == "sigmoid":
            own = number(1, lanes) / (number(1, lanes) + tirx.exp(number(0, lanes) - own))
        store(scores, own, at, lanes)
        for lane in range(lanes):
            T.buffer_store(classes, (at + lane).astype("int32"), [at + lane])
            for place in range(4):
                T.buffer_store(boxes, float32(0), [(at + lane) * 4 + place])

    parts.each(write)


class _Parts:
    """The order in which the classes are visited."""

    def __init__(self, form: ClassScores, data: Any) -> None:
        self.form, self.data = form, data

    def each(self, write: Callable[[Any, int], None]) -> None:
        """Write the loops over all classes; ``write`` takes a class and the number of its neighbours in a vector."""
        raise NotImplementedError

    def fold(self, start: float, add: Callable[[Any, Any], Any], value: Callable[[Any, int], Any]) -> Any:
        """Return the sum, by ``add``, of ``value`` of all scores."""
        raise NotImplementedError

    def find_softmax(self) -> tuple[Any, Any]:
        """Return the largest score, and the sum of the exponentials of all scores less the largest."""
        highest = self.fold(float(tirx.min_value("float32").value), tirx.Max, lambda score, _: score)
        total = self.fold(0.0, lambda a, b: a + b, lambda score, lanes: tirx.exp(score - spread(highest, lanes)))
        return highest, total


class _Vectors(_Parts):
    """Vectors, and the classes that are left one by one."""

    def each(self, write: Callable[[Any, int], None]) -> None:
        each_vector((0, self.form.count), _LANES, write)

    def fold(self, start: float, add: Callable[[Any, Any], Any], value: Callable[[Any, int], Any]) -> Any:
        sums, total = local(_LANES), local(1)
        store(sums, number(start, _LANES), int64(0), _LANES)
        T.buffer_store(total, float32(start), [0])

        def take(at: Any, lanes: int) -> None:
            into = total if lanes == 1 else sums
            found = value(load(self.data, at, lanes), lanes)
            store(into, add(load(into, int64(0), lanes), found), int64(0), lanes)

        self.each(take)
        with T.serial(int64(_LANES)) as lane:
            T.buffer_store(total, add(total[0], sums[lane]), [0])
        return T.Bind(total[0])


class _Block(_Parts):
    """Every 256th class for each thread of a block."""

    def __init__(self, form: ClassScores, data: Any, thread: Any) -> None:
        super().__init__(form, data)
        self.thread = thread
        self.shared = T.alloc_buffer([THREADS], "float32", scope="shared", layout=None)

    def each(self, write: Callable[[Any, int], None]) -> None:
        with T.serial(int64(-(-self.form.count // THREADS))) as step:
            at = T.Bind(step * THREADS + self.thread)
            with T.If(at < int64(self.form.count)), T.Then():
                write(at, 1)

    def fold(self, start: float, add: Callable[[Any, Any], Any], value: Callable[[Any, int], Any]) -> Any:
        total = local(1)
        T.buffer_store(total, float32(start), [0])
        self.each(lambda at, _: T.buffer_store(total, add(total[0], value(load(self.data, at), 1)), [0]))
        for partner in list_partners(self.thread):
            T.buffer_store(self.shared, total[0], [self.thread])
            other = T.Bind(self.shared[partner])
            T.buffer_store(total, add(total[0], other), [0])
        return T.Bind(total[0])
