"""The kernel that makes probabilities of a classifier's scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.base.postprocess_specs import Activation
from tvmbuild.compiler.ir.expressions import float32
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import one_block
from tvmbuild.compiler.kernels.results.best import squash
from tvmbuild.compiler.kernels.results.select import list_candidate_forms
from tvmbuild.compiler.kernels.results.visits import BlockVisits, VectorVisits, Visits
from tvmbuild.compiler.kernels.vectors import spread, store


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
                _write(form, BlockVisits(form.count, buffers[0], thread), buffers)
        else:
            _write(form, VectorVisits(form.count, buffers[0]), buffers)
    return mark_scheduled(builder.get())


def _write(form: ClassScores, visits: Visits, buffers: Sequence[Any]) -> None:
    _, boxes, scores, classes = buffers
    highest, total = (None, None) if form.activation != "softmax" else visits.find_softmax()

    def write(at: Any, lanes: int) -> None:
        own = visits.load(at, lanes)
        if form.activation == "softmax":
            own = tirx.exp(own - spread(highest, lanes)) / spread(total, lanes)
        elif form.activation == "sigmoid":
            own = squash(own, lanes)
        store(scores, own, at, lanes)
        for lane in range(lanes):
            T.buffer_store(classes, (at + lane).astype("int32"), [at + lane])
            for place in range(4):
                T.buffer_store(boxes, float32(0), [(at + lane) * 4 + place])

    visits.each(write)
