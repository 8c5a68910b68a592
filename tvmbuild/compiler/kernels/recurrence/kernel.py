"""The kernel of LSTM, GRU and RNN on CPUs: it runs all steps, with the product with the state and gates in registers.

As separate operators, a recurrence is hundreds of calls of small functions. In this kernel a thread runs one sequence
in one direction. The data's part of the gates (``projected``) is one product for all steps, computed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import OPAQUE, int64, wide
from tvmbuild.compiler.kernels.buffers import flatten, whole
from tvmbuild.compiler.kernels.recurrence.dot_products import DotProducts
from tvmbuild.compiler.kernels.recurrence.form import FORM, LANES, Kind, Recurrence
from tvmbuild.compiler.kernels.recurrence.rounding import Rounded, round_state
from tvmbuild.compiler.kernels.recurrence.sequences import find_steps, find_time
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store


@dataclass(frozen=True)
class _Thread:
    """The flat buffers of a thread, which runs one sequence in one direction."""

    form: Recurrence
    projected: Any
    weights: Any
    bias: Any
    direction: Any
    state: Any
    """The states of the previous step and of this one, [2 * padded]; they swap places at each step."""
    cell: Any
    """The cell of an LSTM or the update gate of a GRU, [padded]."""
    other: Any
    """The state of a GRU times its reset gate, [padded], or the rounded state if the weights are integers."""
    dots: DotProducts | None
    """The product with integer weights by a dot instruction, or None if integers are multiplied as floats."""


def write_recurrence(form: Recurrence, dots: DotProducts | None = None) -> tirx.PrimFunc:
    """Return the kernel of a recurrence; see :class:`Recurrence` for the kernel's arguments.

    ``dots`` computes the products with integer weights; without it, they are multiplied as floats.
    """
    parts = form.directions * form.batch
    with _begin_function(form, dots) as (builder, inputs, outputs), T.parallel(int64(parts)) as part:
        projected, weights, bias, *initial = inputs
        direction, row = T.Bind(part // form.batch), T.Bind(part % form.batch)
        state, cell = local(2 * form.padded), local(form.padded)
        other = local(form.padded) if dots is None else dots.allocate()
        thread = _Thread(form, projected, weights, bias, direction, state, cell, other, dots)
        own = T.Bind(part * form.hidden)
        with T.serial(int64(form.padded // LANES)) as vector:
            store(state, number(0, LANES), vector * LANES, LANES)
            store(cell, number(0, LANES), vector * LANES, LANES)
        for target, source in zip((state, cell), initial[: form.states], strict=False):
            _copy(form, (target, int64(0)), (source, own))
        steps = find_steps(form, initial[-1], row) if form.has_lengths else form.steps
        with T.serial(steps if form.has_lengths else int64(steps)) as step:
            time = T.Bind(find_time(form, step, (direction, steps)))
            old, new = T.Bind(step % 2 * form.padded), T.Bind((step + 1) % 2 * form.padded)
            first = T.Bind(((time * form.batch + row) * form.directions + direction) * form.width)
            rounded = _round(thread, old) if form.is_quantized else None
            for index in range(len(form.passes)):
                with T.serial(int64(form.panels)) as panel:
                    _write_panel(thread, index, panel, _Step(first, old, new, rounded))
            _copy(
                form,
                (outputs[0], T.Bind(((time * form.directions + direction) * form.batch + row) * form.hidden)),
                (state, new),
            )
        if form.has_lengths:
            with T.serial(form.steps - steps) as rest, T.serial(int64(form.hidden)) as unit:
                place = ((steps + rest) * form.directions + direction) * form.batch + row
                T.buffer_store(outputs[0], number(0), [place * form.hidden + unit])
        last = steps % 2 * form.padded
        _copy(form, (outputs[1], own), (state, T.Bind(last) if form.has_lengths else int64(last)))
        if form.kind == "LSTM":
            _copy(form, (outputs[2], own), (cell, int64(0)))
    return builder.get()


@contextmanager
def _begin_function(form: Recurrence, dots: DotProducts | None) -> Iterator[tuple[IRBuilder, list[Any], list[Any]]]:
    """Yield (builder, flat inputs, flat outputs), and write the function's body in the block.

    After the block, ``builder.get()`` returns the function.
    """
    state = (form.directions, form.batch, form.hidden)
    of_weights: tuple[int, ...] = (form.directions * form.width * form.hidden,)
    beside: tuple[int, ...] = (form.directions, form.width if form.is_quantized else form.padded)
    if dots is not None:
        of_weights, beside = dots.shapes
    given = [(form.steps, form.batch, form.directions * form.width), of_weights, beside, *[state] * form.states]
    lengths = [((form.batch,), "int32")] if form.has_lengths else []
    types = ["float32", form.weights if dots is None else "int8", *["float32"] * (1 + form.states)]
    made = [(form.steps, *state), *[state] * form.states]
    work = 2 * form.steps * form.batch * form.directions * form.gates * form.hidden**2
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name(form.kind.lower())
        described = {FORM: form.describe()} if form.is_quantized and dots is None else {}
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE, "estimated_flops": work} | described)
        arguments = [
            T.arg(f"data{i}", T.buffer(wide(*each), dtype, layout=None))
            for i, (each, dtype) in enumerate([*zip(given, types, strict=True), *lengths])
        ]
        results = [T.arg(f"out{i}", T.buffer(wide(*each), layout=None)) for i, each in enumerate(made)]
        with T.sblock("root"):
            T.reads(*(whole(each) for each in arguments))
            T.writes(*(whole(each) for each in results))
            inputs = list(map(flatten, arguments))
            outputs = list(map(flatten, results))
            yield builder, inputs, outputs


def _copy(form: Recurrence, target: tuple[Any, Any], source: tuple[Any, Any]) -> None:
    """Copy all hidden units from ``source`` to ``target``, each given as (buffer, first index)."""
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
    """The offsets of a step's gates, old state and new state, and the rounding of the state."""

    first: Any
    old: Any
    new: Any
    rounded: Rounded | None = None


def _write_panel(thread: _Thread, index: int, panel: Any, step: _Step) -> None:
    """Add up the gates of pass ``index`` for one panel, and write the panel's new cell and state."""
    form = thread.form
    gates, vectors = form.passes[index], range(0, form.panel, LANES)
    sums = local(len(gates) * form.panel)
    begin = T.Bind(step.first + panel * form.gates * form.panel)
    if form.is_quantized:
        _multiply_integers(thread, panel, (begin, sums), step.rounded)
    else:
        for place, gate in enumerate(gates):
            for vector in vectors:
                of_state = form.kind == "GRU" and form.linear_before_reset and gate == 2
                source = thread.bias if of_state else thread.projected
                at = thread.direction * form.padded + panel * form.panel if of_state else begin + gate * form.panel
                store(sums, load(source, at + vector, LANES), place * form.panel + vector, LANES)
        _multiply(thread, index, panel, (thread.other, int64(0), sums) if index else (thread.state, step.old, sums))
    for vector in vectors:
        each = [load(sums, place * form.panel + vector, LANES) for place in range(len(gates))]
        _UPDATES[form.kind](thread, index, each, (begin + vector, panel * form.panel + vector, step.old, step.new))


def _round(thread: _Thread, old: Any) -> Rounded:
    """Round the old state to 8 bits by its own range, and write it to ``thread.other``.

    The kernel by floats takes the integers minus their zero point in float32; a dot instruction takes its own dtype.
    """
    if thread.dots is not None:
        return thread.dots.round(thread.state, old, thread.other)

    def write(steps: Any, zeros: Any, at: Any) -> None:
        store(thread.other, steps - zeros, at, LANES)

    return round_state(thread.state, old, thread.form.padded, write)


def _multiply_integers(thread: _Thread, panel: Any, places: tuple[Any, Any], rounded: Any) -> None:
    """Compute a panel's gates with integer weights.

    ``places`` is (offset of the panel in ``projected``, the buffer to write).
    """
    form, dots, (begin, gates) = thread.form, thread.dots, places
    size, rows = form.gates * form.panel, 1 if dots is None else dots.rows
    sums = gates
    if dots is None:
        for at in range(0, size, LANES):
            store(sums, number(0, LANES), at, LANES)
        _multiply(thread, 0, panel, (thread.other, int64(0), sums))
    else:
        sums = dots.multiply((thread.weights, thread.bias, thread.other), thread.direction, panel, rounded)
    scales = T.Bind(thread.direction * (rows * form.width) + panel * size)
    for at in range(0, size, LANES):
        factor = load(thread.bias, scales + at, LANES) * spread(rounded.scale, LANES)
        store(gates, load(thread.projected, begin + at, LANES) + load(sums, at, LANES) * factor, at, LANES)


def _multiply(thread: _Thread, index: int, panel: Any, operands: tuple[Any, Any, Any]) -> None:
    """Add the product of the state and the panel's weights to the sums.

    ``operands`` is (state or its replacement, its first index, sums).
    """
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
"""The offsets of a vector in the gates and in the hidden units, and the offsets of the old and the new state."""


def _update_lstm(thread: _Thread, _pass: int, gates: list[Any], places: Places) -> None:
    """Write the new cell and state of a vector of hidden units; the gates are in the order of ONNX: i, o, f, c."""
    enter, leave, forget = (tirx.sigmoid(each) for each in gates[:3])
    _, at, _, new = places
    cell = T.Bind(forget * load(thread.cell, at, LANES) + enter * tirx.tanh(gates[3]))
    store(thread.cell, cell, at, LANES)
    store(thread.state, leave * tirx.tanh(cell), new + at, LANES)


def _update_gru(thread: _Thread, index: int, gates: list[Any], places: Places) -> None:
    """Write the new state of a vector of hidden units; the gates are in the order of ONNX: z, r, h.

    If the candidate needs a second pass, the first pass writes the update gate and the reset state instead.
    """
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
