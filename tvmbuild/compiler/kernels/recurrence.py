"""LSTM, GRU and RNN on CPUs as one kernel: all steps, the product with the state and the gates in registers.

Step by step a recurrence is hundreds of calls of small functions. Here a thread runs one sequence in one direction.
What the data adds to the gates (``projected``) is one product for all steps, made before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import OPAQUE, int64, wide
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store

Kind = Literal["LSTM", "GRU", "RNN"]
GATES: dict[Kind, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
LANES = 16
"""The length of every vector here: LLVM cuts them into those that the CPU has."""
_STEPS = 255
"""The largest of 8 bits."""
_PANEL: dict[Kind, int] = {"LSTM": 16, "GRU": 16, "RNN": 64}
"""Hidden units whose gates are computed together: as many sums as hide the latency of a multiply-add."""


@dataclass(frozen=True)
class Recurrence:
    """The kernel's sizes.

    Its arguments are ``projected`` [steps, batch, directions * width] and the weights, both as the methods here pack
    them, a bias [directions, padded] that is in the reset gate's product of a GRU, and the initial states, each
    [directions, batch, hidden]; then the output [steps, directions, batch, hidden] and the last states. All are
    float32, but for integer weights, which have scales [directions, width] in the place of the bias.
    """

    kind: Kind
    steps: int
    batch: int
    hidden: int
    backward: tuple[bool, ...]
    """For each direction."""
    linear_before_reset: bool = False
    """Whether a GRU's reset gate multiplies the candidate's product, not the state before it."""
    activation: Literal["Tanh", "Relu"] = "Tanh"
    """The function of an RNN's state."""
    weights: Literal["float32", "int8", "int16"] = "float32"
    """Integers are those of ONNX Runtime's dynamic quantisation, less their zero point: the state is rounded to 8 bits
    by its own range at every step. Of an LSTM, and of one sequence."""

    @property
    def gates(self) -> int:
        """How many gates a hidden unit has."""
        return GATES[self.kind]

    @property
    def states(self) -> int:
        """How many states there are: an LSTM has a cell, too."""
        return 2 if self.kind == "LSTM" else 1

    @property
    def directions(self) -> int:
        """How many directions there are."""
        return len(self.backward)

    @property
    def panel(self) -> int:
        """How many hidden units a panel has."""
        return _PANEL[self.kind]

    @property
    def panels(self) -> int:
        """How many panels there are."""
        return -(-self.hidden // self.panel)

    @property
    def padded(self) -> int:
        """How many hidden units all panels have."""
        return self.panels * self.panel

    @property
    def width(self) -> int:
        """How many numbers the gates of one direction are."""
        return self.gates * self.padded

    @cached_property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """The gates that one pass over the state adds up: a GRU's candidate may want its reset gate first."""
        if self.kind == "GRU" and not self.linear_before_reset:
            return (0, 1), (2,)
        return (tuple(range(self.gates)),)

    @property
    def is_quantized(self) -> bool:
        """Say whether the weights are integers."""
        return self.weights != "float32"

    def pack_gates(self, rows: NDArray[Any], unused: float = 0) -> NDArray[Any]:
        """Return [gates * hidden, …] of one direction as [gates in panels, …], in the order of ``projected``."""
        apart = rows.reshape(self.gates, self.hidden, *rows.shape[1:])
        more = [(0, 0), (0, self.padded - self.hidden), *[(0, 0)] * (rows.ndim - 1)]
        panels = np.pad(apart, more, constant_values=unused).reshape(
            self.gates, self.panels, self.panel, *rows.shape[1:]
        )
        return np.ascontiguousarray(panels.swapaxes(0, 1).reshape(self.width, *rows.shape[1:]))

    def pack_weights(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return [directions, gates * hidden, hidden] flat: for each pass and panel rows of the state by its gates."""
        parts = []
        for own in weights:
            panels = self.pack_gates(own).reshape(self.panels, self.gates, self.panel, self.hidden)
            parts += [panels[:, list(gates)].transpose(0, 3, 1, 2).reshape(-1) for gates in self.passes]
        return np.ascontiguousarray(np.concatenate(parts), dtype=self.weights)

    def pack_bias(self, bias: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return [directions, hidden] padded to whole panels."""
        return np.pad(bias, ((0, 0), (0, self.padded - self.hidden)))


@dataclass(frozen=True)
class _Thread:
    """One sequence in one direction: its buffers, flat, and where its numbers lie."""

    form: Recurrence
    projected: Any
    weights: Any
    bias: Any
    direction: Any
    state: Any
    """Two times [padded]: of the step before and of this one."""
    cell: Any
    """[padded] of an LSTM; of a GRU its update gate."""
    other: Any
    """[padded]: a GRU's state times its reset gate; the rounded state where weights are integers."""


def write_recurrence(form: Recurrence) -> tirx.PrimFunc:
    """Return the kernel; see :class:`Recurrence` for its arguments."""
    parts = form.directions * form.batch
    with _begin_function(form) as (builder, inputs, outputs), T.parallel(int64(parts)) as part:
        projected, weights, bias, *initial = inputs
        direction, row = T.Bind(part // form.batch), T.Bind(part % form.batch)
        state, cell, other = local(2 * form.padded), local(form.padded), local(form.padded)
        thread = _Thread(form, projected, weights, bias, direction, state, cell, other)
        own = T.Bind(part * form.hidden)
        with T.serial(int64(form.padded // LANES)) as vector:
            store(state, number(0, LANES), vector * LANES, LANES)
            store(cell, number(0, LANES), vector * LANES, LANES)
        for target, source in zip((state, cell), initial, strict=False):
            _copy(form, (target, int64(0)), (source, own))
        with T.serial(int64(form.steps)) as step:
            time = T.Bind(_find_time(form, step, direction))
            old, new = T.Bind(step % 2 * form.padded), T.Bind((step + 1) % 2 * form.padded)
            first = T.Bind(((time * form.batch + row) * form.directions + direction) * form.width)
            scale = _round_state(thread, old) if form.is_quantized else None
            for index in range(len(form.passes)):
                with T.serial(int64(form.panels)) as panel:
                    _write_panel(thread, index, panel, _Step(first, old, new, scale))
            _copy(
                form,
                (outputs[0], T.Bind(((time * form.directions + direction) * form.batch + row) * form.hidden)),
                (state, new),
            )
        _copy(form, (outputs[1], own), (state, int64(form.steps % 2 * form.padded)))
        if form.kind == "LSTM":
            _copy(form, (outputs[2], own), (cell, int64(0)))
    return builder.get()


@contextmanager
def _begin_function(form: Recurrence) -> Iterator[tuple[IRBuilder, list[Any], list[Any]]]:
    """Yield the builder, the inputs and the outputs, flat; the builder has the function once that is left."""
    whole = (form.directions, form.batch, form.hidden)
    given = [(form.steps, form.batch, form.directions * form.width), (form.directions * form.width * form.hidden,)]
    given += [(form.directions, form.width if form.is_quantized else form.padded), *[whole] * form.states]
    types = ["float32", form.weights, *["float32"] * (1 + form.states)]
    made = [(form.steps, *whole), *[whole] * form.states]
    work = 2 * form.steps * form.batch * form.directions * form.gates * form.hidden**2
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name(form.kind.lower())
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE, "estimated_flops": work})
        arguments = [
            T.arg(f"data{i}", T.buffer(wide(*each), dtype, layout=None))
            for i, (each, dtype) in enumerate(zip(given, types, strict=True))
        ]
        results = [T.arg(f"out{i}", T.buffer(wide(*each), layout=None)) for i, each in enumerate(made)]
        with T.sblock("root"):
            T.reads(*(_whole(each) for each in arguments))
            T.writes(*(_whole(each) for each in results))
            inputs = list(map(_flatten, arguments))
            outputs = list(map(_flatten, results))
            yield builder, inputs, outputs


def _whole(buffer: Any) -> Any:
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


def _flatten(buffer: Any) -> Any:
    size = math.prod(int(extent) for extent in buffer.shape)
    return T.decl_buffer(wide(size), str(buffer.dtype), data=buffer.data, layout=None)


def _find_time(form: Recurrence, step: Any, direction: Any) -> Any:
    """Return which element of the sequence a step is of."""
    last = form.steps - 1
    if form.directions == 1:
        return last - step if form.backward[0] else step
    return step + direction * (last - 2 * step)


def _copy(form: Recurrence, target: tuple[Any, Any], source: tuple[Any, Any]) -> None:
    """Copy hidden units from a place of a buffer to one of another."""
    vectors, left = form.hidden // LANES, form.hidden % LANES
    if vectors:
        with T.serial(int64(vectors)) as vector:
            store(target[0], load(source[0], source[1] + vector * LANES, LANES), target[1] + vector * LANES, LANES)
    if left:
        with T.serial(int64(left)) as index:
            at = vectors * LANES + index
            store(target[0], load(source[0], source[1] + at), target[1] + at)


@dataclass(frozen=True)
class _Step:
    """A step: where its gates, the state before it and the one after it begin, and the rounded state's scale."""

    first: Any
    old: Any
    new: Any
    scale: Any = None


def _write_panel(thread: _Thread, index: int, panel: Any, step: _Step) -> None:
    """Add up the gates of a pass for one panel, and write what they come to."""
    form = thread.form
    gates, vectors = form.passes[index], range(0, form.panel, LANES)
    sums = local(len(gates) * form.panel)
    begin = T.Bind(step.first + panel * form.gates * form.panel)
    for place, gate in enumerate(gates):
        for vector in vectors:
            of_state = form.kind == "GRU" and form.linear_before_reset and gate == 2
            source = thread.bias if of_state else thread.projected
            at = thread.direction * form.padded + panel * form.panel if of_state else begin + gate * form.panel
            start = number(0, LANES) if form.is_quantized else load(source, at + vector, LANES)
            store(sums, start, place * form.panel + vector, LANES)
    seen, shift = (thread.other, int64(0)) if index == 1 or form.is_quantized else (thread.state, step.old)
    _multiply(thread, index, panel, (seen, shift, sums))
    if form.is_quantized:
        width = T.Bind(thread.direction * form.width + panel * form.gates * form.panel)
        for at in range(0, form.gates * form.panel, LANES):
            factor = load(thread.bias, width + at, LANES) * spread(step.scale, LANES)
            store(sums, load(thread.projected, begin + at, LANES) + load(sums, at, LANES) * factor, at, LANES)
    for vector in vectors:
        each = [load(sums, place * form.panel + vector, LANES) for place in range(len(gates))]
        _UPDATES[form.kind](thread, index, each, (begin + vector, panel * form.panel + vector, step.old, step.new))


def _round_state(thread: _Thread, old: Any) -> Any:
    """Write the state in steps of its own range, less their zero point, as DynamicQuantizeLinear; return the scale."""
    form, least, largest = thread.form, local(LANES), local(LANES)
    for buffer in (least, largest):
        store(buffer, number(0, LANES), 0, LANES)
    with T.serial(int64(form.padded // LANES)) as vector:
        values = T.Bind(load(thread.state, old + vector * LANES, LANES))
        store(least, tirx.Min(load(least, 0, LANES), values), 0, LANES)
        store(largest, tirx.Max(load(largest, 0, LANES), values), 0, LANES)
    with T.serial(int64(LANES - 1)) as lane:
        store(least, tirx.Min(load(least, 0), load(least, lane + 1)), 0)
        store(largest, tirx.Max(load(largest, 0), load(largest, lane + 1)), 0)
    span = T.Bind((load(largest, 0) - load(least, 0)) / number(_STEPS))
    scale = T.Bind(tirx.Select(span > number(0), span, number(1)))
    zero = T.Bind(spread(tirx.nearbyint(number(0) - load(least, 0) / scale), LANES))
    with T.serial(int64(form.padded // LANES)) as vector:
        values = load(thread.state, old + vector * LANES, LANES) / spread(scale, LANES)
        rounded = tirx.nearbyint(values) + zero
        inside = tirx.Max(tirx.Min(rounded, number(_STEPS, LANES)), number(0, LANES))
        store(thread.other, inside - zero, vector * LANES, LANES)
    return scale


def _multiply(thread: _Thread, index: int, panel: Any, operands: tuple[Any, Any, Any]) -> None:
    """Add the state, or what there is in its stead, times the panel's weights to the sums."""
    form, (seen, shift, sums) = thread.form, operands
    size = len(form.passes[index]) * form.panel
    before = sum(len(each) for each in form.passes[:index]) * form.padded * form.hidden
    start = T.Bind(thread.direction * (form.width * form.hidden) + before + panel * (form.hidden * size))
    with T.serial(int64(form.hidden)) as k:
        value = T.Bind(spread(load(seen, shift + k), LANES))
        for at in range(0, size, LANES):
            weights = load(thread.weights, start + k * size + at, LANES)
            store(sums, load(sums, at, LANES) + value * weights, at, LANES)


Places = tuple[Any, Any, Any, Any]
"""Where a vector's gates and hidden units are, and where the old and the new state begin."""


def _update_lstm(thread: _Thread, _pass: int, gates: list[Any], places: Places) -> None:
    """Write cell and state of a vector; the gates are in ONNX's order: i, o, f, c."""
    enter, leave, forget = (tirx.sigmoid(each) for each in gates[:3])
    _, at, _, new = places
    cell = T.Bind(forget * load(thread.cell, at, LANES) + enter * tirx.tanh(gates[3]))
    store(thread.cell, cell, at, LANES)
    store(thread.state, leave * tirx.tanh(cell), new + at, LANES)


def _update_gru(thread: _Thread, index: int, gates: list[Any], places: Places) -> None:
    """Write the state of a vector, or its gates where the candidate comes in a second pass; z, r, h."""
    form, (first, at, old, new) = thread.form, places
    before = load(thread.state, old + at, LANES)
    if index == 0 and not form.linear_before_reset:
        store(thread.cell, tirx.sigmoid(gates[0]), at, LANES)
        store(thread.other, tirx.sigmoid(gates[1]) * before, at, LANES)
        return
    if form.linear_before_reset:
        update = T.Bind(tirx.sigmoid(gates[0]))
        projected = load(thread.projected, first + 2 * form.panel, LANES)
        candidate = tirx.tanh(projected + tirx.sigmoid(gates[1]) * gates[2])
    else:
        update, candidate = load(thread.cell, at, LANES), tirx.tanh(gates[0])
    candidate = T.Bind(candidate)
    store(thread.state, candidate + update * (before - candidate), new + at, LANES)


def _update_rnn(thread: _Thread, _pass: int, gates: list[Any], places: Places) -> None:
    _, at, _, new = places
    relu = thread.form.activation == "Relu"
    value = tirx.Max(gates[0], number(0, LANES)) if relu else tirx.tanh(gates[0])
    store(thread.state, value, new + at, LANES)


_UPDATES: dict[Kind, Callable[[_Thread, int, list[Any], Places], None]] = {
    "LSTM": _update_lstm,
    "GRU": _update_gru,
    "RNN": _update_rnn,
}
