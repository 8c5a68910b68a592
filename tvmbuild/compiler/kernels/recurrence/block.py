"""The kernel of LSTM, GRU and RNN on GPUs: a block of threads runs all steps of one sequence in one direction.

As separate operators, a recurrence is several launches a step. In this kernel, the state stays in shared memory.
Each thread adds up the gates of its hidden units for a part of the state; the threads of the first part add the sums of
the others, and update the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64, wide
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.loops import where
from tvmbuild.compiler.kernels.recurrence.form import Kind, Recurrence
from tvmbuild.compiler.kernels.recurrence.sequences import find_steps, find_time
from tvmbuild.compiler.kernels.vectors import local, number
from tvmbuild.compiler.machine.limits import GpuLimits

_UNROLLED = 8
"""The number of state values whose weights a thread loads together, to hide the latency of the loads."""
_FLOAT = 4
"""The number of bytes of a float32."""


@dataclass(frozen=True)
class BlockSizes:
    """The division of a step among the threads of a block."""

    columns: int
    """The number of threads of a part; a thread has every ``columns``-th hidden unit."""
    units: int
    """The number of hidden units of a thread."""
    parts: int
    """The number of parts of the state."""
    depth: int
    """The number of state values of a part."""

    @classmethod
    def choose(cls, form: Recurrence, limits: GpuLimits) -> BlockSizes:
        """Return sizes with as many parts as the threads and half of the shared memory allow."""
        columns = min(form.padded, limits.threads)
        units, parts = -(-form.padded // columns), 1
        sums = columns * units * max(map(len, form.passes)) * _FLOAT
        while (
            2 * parts * columns <= limits.threads
            and 2 * parts * _UNROLLED <= form.hidden
            and (2 * parts - 1) * sums <= limits.shared_bytes // 2
        ):
            parts *= 2
        return cls(columns, units, parts, -(-form.hidden // (parts * _UNROLLED)) * _UNROLLED)

    @property
    def padded(self) -> int:
        """The number of hidden units with padding."""
        return self.columns * self.units

    @property
    def inputs(self) -> int:
        """The number of state values that are multiplied, with padding."""
        return self.parts * self.depth

    @property
    def values(self) -> int:
        """The number of state values in shared memory."""
        return max(self.inputs, self.padded)

    def pack_weights(self, form: Recurrence, packed: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return weights from `Recurrence.pack_weights` in this kernel's order, flat.

        For each direction and pass, the order is state values x gates x hidden units: neighbouring threads read
        neighbouring weights.
        """
        parts = []
        for own in packed.reshape(form.directions, -1):
            begin = 0
            for gates in form.passes:
                size = len(gates) * form.padded * form.hidden
                panels = own[begin : begin + size].reshape(form.panels, form.hidden, len(gates), form.panel)
                rows = panels.transpose(1, 2, 0, 3).reshape(form.hidden, len(gates), form.padded)
                more = (self.inputs - form.hidden, 0, self.padded - form.padded)
                parts.append(np.pad(rows, [(0, each) for each in more]).reshape(-1))
                begin += size
        return np.ascontiguousarray(np.concatenate(parts))


@dataclass(frozen=True)
class _Thread:
    """A thread's place in its block, and its buffers."""

    form: Recurrence
    sizes: BlockSizes
    projected: Any
    weights: Any
    bias: Any
    direction: Any
    part: Any
    column: Any
    shared: Any
    """The state, shared by the block, [values]."""
    reset: Any
    """The state of a GRU times its reset gate, shared by the block, [values], or None if there is one pass."""
    sums: Any
    """The sums of all parts but the first, shared by the block, [parts - 1, gates, padded], or None if there is one."""
    state: Any
    """The state of the thread's hidden units, [units]."""
    cell: Any
    """The cell of an LSTM or the update gate of a GRU, of the thread's hidden units, [units]."""

    def unit(self, number: int) -> Any:
        """Return the hidden unit with a number in the thread."""
        return self.column + number * self.sizes.columns

    def each_unit(self, bound: int) -> Any:
        """Yield (number, hidden unit) of the thread's hidden units below ``bound``, and write code for each."""
        for place in range(self.sizes.units):
            unit = T.Bind(self.unit(place))
            with where(unit < int64(bound), always=bound >= self.sizes.padded):
                yield place, unit


def write_block_recurrence(form: Recurrence, sizes: BlockSizes) -> tirx.PrimFunc:
    """Return the kernel of a recurrence; its weights are packed by `BlockSizes.pack_weights`.

    The other arguments are those of :class:`Recurrence`.
    """
    state = (form.directions, form.batch, form.hidden)
    shapes = [
        (form.steps, form.batch, form.directions * form.width),
        (form.directions * form.gates * sizes.inputs * sizes.padded,),
        (form.directions, form.padded),
        *[state] * form.states,
    ]
    lengths = [((form.batch,), "int32")] if form.has_lengths else []
    inputs = [*((shape, "float32") for shape in shapes), *lengths]
    outputs = [((form.steps, *state), "float32"), *[(state, "float32")] * form.states]
    with (
        begin_kernel(form.kind.lower(), inputs, outputs) as (builder, buffers),
        T.thread_binding(*wide(0, form.directions * form.batch), thread="blockIdx.x") as block,
        T.thread_binding(*wide(0, sizes.columns * sizes.parts), thread="threadIdx.x") as place,
    ):
        data, made = buffers[: len(inputs)], buffers[len(inputs) :]
        direction, row = T.Bind(block // form.batch), T.Bind(block % form.batch)
        thread = _start(form, sizes, data, (direction, place))
        own = T.Bind(block * form.hidden)
        _load_states(thread, data[3 : 3 + form.states], own, place)
        steps = find_steps(form, data[-1], row) if form.has_lengths else int64(form.steps)
        with T.serial(int64(form.steps)) as step:
            time, is_step = find_time(form, step, (direction, steps)), None
            if form.has_lengths:
                is_step = T.Bind(step < steps)
                time = tirx.Select(is_step, time, step)
            time = T.Bind(time)
            first = T.Bind(((time * form.batch + row) * form.directions + direction) * form.width)
            target = T.Bind(((time * form.directions + direction) * form.batch + row) * form.hidden)
            for index in range(len(form.passes)):
                _run_pass(thread, index, _Step(first, is_step, made[0], target))
        with where(thread.part == int64(0), always=sizes.parts == 1):
            for unit, at in thread.each_unit(form.hidden):
                for source, output in zip((thread.state, thread.cell), made[1:], strict=False):
                    T.buffer_store(output, source[unit], [own + at])
    return mark_scheduled(builder.get())


@dataclass(frozen=True)
class _Step:
    """The places of a step in the data and in the output."""

    first: Any
    """The offset of the gates in ``projected``."""
    is_step: Any
    """The condition that the sequence has this step, or None if it has all."""
    output: Any
    target: Any
    """The offset of the new state in ``output``."""


def _start(form: Recurrence, sizes: BlockSizes, data: list[Any], place: tuple[Any, Any]) -> _Thread:
    """Declare the buffers of a thread, whose place is (direction, number in the block)."""
    direction, number_in_block = place
    part, column = T.Bind(number_in_block // sizes.columns), T.Bind(number_in_block % sizes.columns)
    sums = (sizes.parts - 1) * max(map(len, form.passes)) * sizes.padded
    shared, reset, partial = (
        T.alloc_buffer([size], "float32", scope="shared", layout=None) if size else None
        for size in (sizes.values, sizes.values if len(form.passes) > 1 else 0, sums)
    )
    state, cell = local(sizes.units), local(sizes.units)
    projected, weights, bias = data[:3]
    return _Thread(form, sizes, projected, weights, bias, direction, part, column, shared, reset, partial, state, cell)


def _load_states(thread: _Thread, initial: list[Any], own: Any, place: Any) -> None:
    """Write the initial states, which start at ``own``, to the thread's and to the shared buffers."""
    form, sizes = thread.form, thread.sizes
    threads = sizes.columns * sizes.parts
    for begin in range(0, sizes.values, threads):
        at = T.Bind(place + begin)
        with where(at < int64(sizes.values), always=begin + threads <= sizes.padded):
            is_unit = at < int64(form.hidden)
            value = tirx.Select(is_unit, initial[0][own + tirx.Min(at, int64(form.hidden - 1))], number(0))
            T.buffer_store(thread.shared, value, [at])
            if thread.reset is not None:
                T.buffer_store(thread.reset, number(0), [at])
    for target in (thread.state, thread.cell):
        for unit in range(sizes.units):
            T.buffer_store(target, number(0), [unit])
    for unit, at in thread.each_unit(form.hidden):
        for target, source in zip((thread.state, thread.cell), initial, strict=False):
            T.buffer_store(target, source[own + at], [unit])


def _run_pass(thread: _Thread, index: int, step: _Step) -> None:
    """Add up the gates of pass ``index``, and write the new states, or what the next pass needs."""
    form, sizes = thread.form, thread.sizes
    gates = form.passes[index]
    sums = local(sizes.units * len(gates))
    for at in range(sizes.units * len(gates)):
        T.buffer_store(sums, number(0), [at])
    is_first = thread.part == int64(0)
    with where(is_first, always=sizes.parts == 1):
        for unit, at in thread.each_unit(form.padded):
            panel, lane = T.Bind(at // form.panel), T.Bind(at % form.panel)
            for place, gate in enumerate(gates):
                of_state = form.kind == "GRU" and form.linear_before_reset and gate == 2
                source = thread.bias if of_state else thread.projected
                begin = step.first + (panel * form.gates + gate) * form.panel + lane
                value = source[thread.direction * form.padded + at if of_state else begin]
                T.buffer_store(sums, value, [unit * len(gates) + place])
    _multiply(thread, index, thread.reset if index else thread.shared, sums)
    if sizes.parts > 1:
        with T.If(tirx.Not(is_first)), T.Then():
            for at, place in _list_sums(thread, gates):
                T.buffer_store(thread.sums, sums[at], [(thread.part - 1) * (len(gates) * sizes.padded) + place])
    with where(is_first, always=sizes.parts == 1):
        for at, place in _list_sums(thread, gates):
            for part in range(sizes.parts - 1):
                more = thread.sums[place + part * len(gates) * sizes.padded]
                T.buffer_store(sums, sums[at] + more, [at])
        for unit in range(sizes.units):
            each = [T.Bind(sums[unit * len(gates) + place]) for place in range(len(gates))]
            _UPDATES[form.kind](thread, index, each, (unit, step))


def _list_sums(thread: _Thread, gates: tuple[int, ...]) -> list[tuple[int, Any]]:
    """Return (index in the thread's sums, index in a part's shared sums) of each sum of the thread."""
    return [
        (unit * len(gates) + place, place * thread.sizes.padded + thread.unit(unit))
        for unit in range(thread.sizes.units)
        for place in range(len(gates))
    ]


def _multiply(thread: _Thread, index: int, seen: Any, sums: Any) -> None:
    """Add the product of the thread's part of ``seen``, the state or its replacement, and the weights to the sums."""
    form, sizes = thread.form, thread.sizes
    gates, row = len(form.passes[index]), len(form.passes[index]) * sizes.padded
    before = sum(len(each) for each in form.passes[:index]) * sizes.padded * sizes.inputs
    start = T.Bind(thread.direction * (form.gates * sizes.padded * sizes.inputs) + before + thread.column)
    with T.serial(int64(sizes.depth // _UNROLLED)) as chunk:
        first = T.Bind(thread.part * sizes.depth + chunk * _UNROLLED)
        for each in range(_UNROLLED):
            value, begin = T.Bind(seen[first + each]), T.Bind(start + (first + each) * row)
            for unit in range(sizes.units):
                for gate in range(gates):
                    weight = thread.weights[begin + gate * sizes.padded + unit * sizes.columns]
                    at = unit * gates + gate
                    T.buffer_store(sums, sums[at] + value * weight, [at])


def _write_state(thread: _Thread, value: Any, place: tuple[int, _Step]) -> None:
    """Write the new state of a hidden unit, ``place`` is (its number in the thread, step)."""
    unit, step = place
    at, output = T.Bind(thread.unit(unit)), value
    if step.is_step is not None:
        output, value = (tirx.Select(step.is_step, value, other) for other in (number(0), thread.state[unit]))
    kept = T.Bind(value)
    T.buffer_store(thread.state, kept, [unit])
    T.buffer_store(thread.shared, kept, [at])
    with where(at < int64(thread.form.hidden), always=thread.form.hidden == thread.sizes.padded):
        T.buffer_store(step.output, output, [step.target + at])


def _update_lstm(thread: _Thread, _pass: int, gates: list[Any], place: tuple[int, _Step]) -> None:
    """Write the new cell and state of a hidden unit; the gates are in the order of ONNX: i, o, f, c."""
    enter, leave, forget = (tirx.sigmoid(each) for each in gates[:3])
    unit, step = place
    before = thread.cell[unit]
    cell = T.Bind(forget * before + enter * tirx.tanh(gates[3]))
    kept = cell if step.is_step is None else tirx.Select(step.is_step, cell, before)
    made = T.Bind(leave * tirx.tanh(cell))
    T.buffer_store(thread.cell, kept, [unit])
    _write_state(thread, made, place)


def _update_gru(thread: _Thread, index: int, gates: list[Any], place: tuple[int, _Step]) -> None:
    """Write the new state of a hidden unit; the gates are in the order of ONNX: z, r, h.

    If the candidate needs a second pass, the first pass writes the update gate and the reset state instead.
    """
    form, (unit, step) = thread.form, place
    before = T.Bind(thread.state[unit])
    if index == 0 and not form.linear_before_reset:
        T.buffer_store(thread.cell, tirx.sigmoid(gates[0]), [unit])
        T.buffer_store(thread.reset, tirx.sigmoid(gates[1]) * before, [thread.unit(unit)])
        return
    if form.linear_before_reset:
        update, at = T.Bind(tirx.sigmoid(gates[0])), T.Bind(thread.unit(unit))
        at = at if form.padded == thread.sizes.padded else tirx.Min(at, int64(form.padded - 1))
        projected = thread.projected[step.first + (at // form.panel * form.gates + 2) * form.panel + at % form.panel]
        candidate = tirx.tanh(projected + tirx.sigmoid(gates[1]) * gates[2])
    else:
        update, candidate = T.Bind(thread.cell[unit]), tirx.tanh(gates[0])
    candidate = T.Bind(candidate)
    _write_state(thread, candidate + update * (before - candidate), place)


def _update_rnn(thread: _Thread, _pass: int, gates: list[Any], place: tuple[int, _Step]) -> None:
    relu = thread.form.activation == "Relu"
    _write_state(thread, tirx.Max(gates[0], number(0)) if relu else tirx.tanh(gates[0]), place)


_UPDATES: dict[Kind, Callable[[_Thread, int, list[Any], tuple[int, _Step]], None]] = {
    "LSTM": _update_lstm,
    "GRU": _update_gru,
    "RNN": _update_rnn,
}
