"""The kernel that makes candidates from a network's outputs: each has a score and a class, and for detectors a box.

A box is left, top, right, bottom in pixels of the network's input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.base.postprocess_specs import VARIANCES, Activation, BoxForm
from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import each_chunk, each_thread
from tvmbuild.compiler.kernels.results.best import find_best, keep, scatter, squash
from tvmbuild.compiler.kernels.results.priors import Priors
from tvmbuild.compiler.kernels.results.select import list_candidate_forms
from tvmbuild.compiler.kernels.results.visits import LANES
from tvmbuild.compiler.kernels.vectors import load, local, spread, store

_COORDINATES = 4


@dataclass(frozen=True)
class Candidates:
    """The candidates of a network: how its outputs hold them."""

    form: BoxForm
    count: int
    """The number of candidates."""
    classes: int
    outputs: tuple[Form, ...]
    """The shapes and dtypes of the network's outputs that hold the candidates."""
    height: int = 0
    width: int = 0
    """The size of the network's input, in pixels."""
    more: int = 0
    """The number of values after the scores: keypoints, or coefficients of a mask."""
    priors: Priors | None = None
    """The priors, unless they are the last output."""
    variances: tuple[float, ...] = VARIANCES
    counted: bool = False
    """True if only the first candidates exist, so that zeros follow them. Then none with the score 0 is a result."""

    @property
    def own(self) -> int:
        """The number of values that make box, score and class of a candidate in the first output."""
        if self.form.ready:
            return self.form.own
        return self.form.begin + self.classes + (self.form.background == "last")

    @property
    def values(self) -> int:
        """The number of values of a candidate in the first output."""
        return self.own + self.more

    def find_place(self, candidate: Any, value: Any) -> Any:
        """Return the place of a candidate's value in the first output."""
        return locate(self.form, (self.count, self.values), candidate, value)

    def list_cells(self) -> np.ndarray | None:
        """Return column, row and stride of each candidate's cell, float32 [count, 3], or None without grids.

        With priors, return centre, width and height of each, float32 [count, 4], or None if they are an output.
        """
        if self.priors is not None:
            return self.priors.list_boxes(self.height, self.width, normalised=self.form.normalised)
        if not self.form.strides:
            return None
        grids = []
        for stride in self.form.strides:
            rows, columns = np.mgrid[: self.height // stride, : self.width // stride]
            cells = [columns.ravel(), rows.ravel(), np.full(rows.size, stride)]
            grids.append(np.stack(cells, axis=1))
        return np.concatenate(grids).astype(np.float32)


def locate(form: BoxForm, sizes: tuple[int, int], candidate: Any, value: Any) -> Any:
    """Return the place of a candidate's value in an output with these numbers of candidates and of values."""
    count, values = sizes
    return value * count + candidate if form.layout == "columns" else candidate * values + value


def write_candidates(form: Candidates, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from the network's outputs to boxes [count, 4], scores [count] and classes [count], int32.

    Its arguments are the outputs, the grid's cells or the priors if the form has them, and the thresholds; a candidate
    whose objectness does not exceed the first threshold gets the score 0, and no box.
    """
    cells = form.list_cells()
    inputs = [*form.outputs, *([] if cells is None else [(cells.shape, "float32")]), ((2,), "float32")]
    with begin_kernel("candidates", inputs, list_candidate_forms(form.count)) as (builder, arguments):
        kernel = _Kernel(form, arguments)
        if on_gpu:
            with each_thread(form.count) as candidate:
                kernel.write(candidate, 1)
        else:
            lanes = LANES if form.form.layout == "columns" and form.count >= LANES else 1
            with each_chunk(form.count, lanes) as candidate:
                kernel.write(candidate, lanes)
    return mark_scheduled(builder.get())


class _Kernel:
    """The body of the kernel: ``write`` writes ``lanes`` neighbouring candidates."""

    def __init__(self, form: Candidates, arguments: Sequence[Any]) -> None:
        self.form = form
        self.data, self.box_data = arguments[0], arguments[1 if form.form.split else 0]
        self.class_data = arguments[2 if form.form.apart else 0]
        self.cells = arguments[-5]  # or the last output, which is not read if there are neither cells nor priors
        self.thresholds = arguments[-4]
        self.boxes, self.scores, self.classes = arguments[-3:]

    def write(self, candidate: Any, lanes: int) -> None:
        """Write boxes, scores and classes of the candidates from ``candidate`` on."""
        if not self.form.form.objectness:
            self._write_boxes(candidate, lanes)
        if self.form.form.ready:
            _, place, kind = self.form.form.places
            self._store_score(candidate, self._value(candidate, place, lanes), lanes)
            store(self.classes, load(self.class_data, self.form.find_place(candidate, kind), lanes), candidate, lanes)
            return
        if not self.form.form.objectness:
            self._store_score(candidate, self._write_best(candidate, lanes), lanes)
            return
        likely = T.Bind(self._value(candidate, _COORDINATES, lanes))  # forms with objectness are rows: one lane
        self._store_score(candidate, spread(float32(0), lanes), lanes)
        store(self.classes, spread(int32(0), lanes), candidate, lanes)
        with T.If(likely > self.thresholds[0]), T.Then():
            self._write_boxes(candidate, lanes)
            self._store_score(candidate, likely * self._write_best(candidate, lanes), lanes)

    def _store_score(self, candidate: Any, score: Any, lanes: int) -> None:
        if self.form.counted:
            score = T.Bind(score)
            none = spread(tirx.min_value("float32"), lanes)
            score = tirx.Select(score > spread(float32(0), lanes), score, none)
        store(self.scores, score, candidate, lanes)

    def _value(self, candidate: Any, place: Any, lanes: int) -> Any:
        """Return a value of the candidates in the first output."""
        return load(self.data, self.form.find_place(candidate, place), lanes)

    def _write_best(self, candidate: Any, lanes: int) -> Any:
        """Write the class with the largest score, and return its probability."""
        begin = self.form.form.begin
        best, place = find_best(lambda kind: self._value(candidate, kind + begin, lanes), self.form.classes, lanes)
        store(self.classes, place, candidate, lanes)
        return self._activate(candidate, best, lanes)

    def _activate(self, candidate: Any, best: Any, lanes: int) -> Any:
        activation: Activation = self.form.form.activation
        if activation == "none":
            return best
        if activation == "sigmoid":
            return squash(best, lanes)
        total = local(lanes)
        store(total, spread(float32(0), lanes), int64(0), lanes)
        begin = self.form.form.begin - (self.form.form.background == "first")
        with T.serial(int64(self.form.classes + self.form.form.spare)) as index:
            score = self._value(candidate, index + begin, lanes)
            store(total, load(total, int64(0), lanes) + tirx.exp(score - best), int64(0), lanes)
        return spread(float32(1), lanes) / load(total, int64(0), lanes)

    def _write_boxes(self, candidate: Any, lanes: int) -> None:
        form = self.form
        sizes = (form.count, form.outputs[1][0][-1] if form.form.split else form.values)
        order = (1, 0, 3, 2) if form.form.swapped else range(_COORDINATES)
        begin = form.form.places[0]
        places = [locate(form.form, sizes, candidate, int64(begin + at)) for at in order]
        read = [T.Bind(load(self.box_data, place, lanes)) for place in places]
        if form.form.priors != "none":
            read = self._place_by_prior(candidate, read)
        if form.form.strides:
            column, row, stride = (self.cells[candidate * 3 + place] for place in range(3))
            read = [
                (read[0] + column) * stride,
                (read[1] + row) * stride,
                keep(tirx.exp(read[2]), lanes) * stride,
                keep(tirx.exp(read[3]), lanes) * stride,
            ]
        if form.form.normalised:
            sides = (form.width, form.height, form.width, form.height)
            read = [each * spread(float32(side), lanes) for each, side in zip(read, sides, strict=True)]
        if not form.form.corners:
            half = spread(float32(0.5), lanes)
            x, y, across, down = (T.Bind(each) for each in read)
            read = [x - across * half, y - down * half, x + across * half, y + down * half]
        for place, value in enumerate(read):
            scatter(self.boxes, value, candidate * _COORDINATES + place, _COORDINATES, lanes)

    def _place_by_prior(self, candidate: Any, read: list[Any]) -> list[Any]:
        """Return centre, width and height of a candidate; forms with priors are rows: one lane."""
        centre_x, centre_y, width, height = (
            T.Bind(self.cells[candidate * _COORDINATES + place]) for place in range(_COORDINATES)
        )
        x, y, across, down = read
        if self.form.form.priors == "offset":
            return [centre_x + x, centre_y + y, across, down]
        places, sizes = map(float32, self.form.variances)
        return [
            centre_x + x * places * width,
            centre_y + y * places * height,
            keep(tirx.exp(across * sizes), 1) * width,
            keep(tirx.exp(down * sizes), 1) * height,
        ]
