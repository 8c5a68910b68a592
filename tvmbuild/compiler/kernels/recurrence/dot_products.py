"""The product of a rounded state with integer weights by a dot instruction, whose sums stay in registers.

With a state s and its zero point z, Σ (s - z) · w is Σ s · w - z · Σ w, and the last sum is a constant of each column.
Weights minus their zero point may not fit in int8. They are then stored as int8 plus a constant c of each column, which
adds c · Σ (s - z).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.codegen.dot_intrinsics import add_halves, add_steps, widen_halves
from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.recurrence.form import LANES, Recurrence
from tvmbuild.compiler.kernels.recurrence.rounding import Rounded, round_state
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store, take
from tvmbuild.compiler.machine.dot_instructions import DotInstruction

_SIGNED = 128
"""The number to subtract from a uint8 value to store it as int8."""
TOGETHER = 4
"""The number of vectors of columns that are summed together. With AVX2, two take 0.98 to 1.04 times as long as four."""
_GROUP, _EXACT = 4, 8
"""The number of bytes in a group (two pairs of products), and the number of groups whose sums fit in 16 bits: the
largest sum, 8 · 2 · 15 · 128, is 30720."""


@dataclass(frozen=True)
class DotProducts(ABC):
    """The product of a recurrence's state with int8 or int16 weights by a dot instruction."""

    form: Recurrence
    instruction: DotInstruction

    @property
    def columns(self) -> int:
        """The number of sums in a panel."""
        return self.form.gates * self.form.panel

    @property
    @abstractmethod
    def inputs(self) -> int:
        """The number of state values that are multiplied: the hidden units with padding."""

    @property
    def size(self) -> int:
        """The number of weights in a panel."""
        return self.inputs * self.columns

    @property
    def has_moved(self) -> bool:
        """Return whether weights minus their zero point may exceed int8."""
        return self.form.weights == "int16"

    @property
    def rows(self) -> int:
        """The number of constants of a column: its scale, the sum of its bytes and, if `has_moved`, the offset c."""
        return 3 if self.has_moved else 2

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of the packed weights and of the packed constants."""
        form = self.form
        return (form.directions * form.panels * self.size,), (form.directions, self.rows, form.width)

    def pack(self, weights: NDArray[Any], scales: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Return the weights in the instruction's order, and the constants of the columns.

        ``weights`` and ``scales`` are those of the kernel that multiplies integers as floats.
        """
        form = self.form
        moved = weights.reshape(form.directions, form.panels, form.hidden, self.columns).astype(np.int16)
        least, largest = moved.min(axis=2, keepdims=True), moved.max(axis=2, keepdims=True)
        more = np.where(largest >= _SIGNED, largest - (_SIGNED - 1), np.minimum(least + _SIGNED, 0))
        filled = np.pad(moved - more, [(0, 0), (0, 0), (0, self.inputs - form.hidden), (0, 0)])
        constants = [scales, filled.sum(axis=2), more][: self.rows]
        rows = [np.asarray(each, np.float32).reshape(form.directions, 1, form.width) for each in constants]
        return np.ascontiguousarray(self._order(filled), np.int8).reshape(-1), np.concatenate(rows, axis=1)

    @abstractmethod
    def _order(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return weights [directions, panels, inputs, columns] with the last two axes in the order of reading."""

    @abstractmethod
    def allocate(self) -> Any:
        """Declare and return a private buffer for the rounded state."""

    @abstractmethod
    def round(self, state: Any, begin: Any, target: Any) -> Rounded:
        """Round the state that starts at ``begin``, write it to ``target``, and return the rounding."""

    def multiply(self, buffers: tuple[Any, Any, Any], direction: Any, panel: Any, rounded: Rounded) -> Any:
        """Return a buffer of the panel's sums, which are integers in float32.

        ``buffers`` are the weights, the constants and the rounded state.
        """
        weights, constants, seen = buffers
        first = T.Bind((direction * self.form.panels + panel) * self.size)
        totals, sums = self._add_up(weights, first, seen), local(self.columns)
        begin = T.Bind(direction * (self.rows * self.form.width) + panel * self.columns)
        # Each part is an integer below 2^24: there are 362 hidden units at most, and a product is below 2^15.
        for at in range(0, self.columns, LANES):
            value = load(totals, at, LANES)
            value -= spread(rounded.zero, LANES) * load(constants, begin + self.form.width + at, LANES)
            if self.has_moved:
                value += spread(rounded.total, LANES) * load(constants, begin + 2 * self.form.width + at, LANES)
            store(sums, value, at, LANES)
        return sums

    @abstractmethod
    def _add_up(self, weights: Any, begin: Any, seen: Any) -> Any:
        """Return an int32 buffer of the sums of the panel whose weights start at ``begin``; ``seen`` is the state."""


@dataclass(frozen=True)
class WholeBytes(DotProducts):
    """A product by an instruction that multiplies bytes, or bytes widened to int16."""

    @property
    def inputs(self) -> int:
        """The number of state values, padded to whole uses of the instruction."""
        return -(-self.form.hidden // self.instruction.depth) * self.instruction.depth

    def _order(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return the weights as uses x vectors x steps of a use x lanes x inputs, after directions and panels."""
        instruction, lanes = self.instruction, self.instruction.lanes
        uses = (-1, instruction.steps, instruction.group, self.columns // lanes, lanes)
        ordered: NDArray[Any] = weights.reshape(*weights.shape[:2], *uses).transpose(0, 1, 2, 5, 3, 6, 4)
        return ordered

    def allocate(self) -> Any:
        """Declare and return a private buffer of the dtype that the instruction takes."""
        return local(self.form.padded, self.instruction.data)

    def round(self, state: Any, begin: Any, target: Any) -> Rounded:
        """Write the rounded state as uint8 values, or minus 128 if the instruction takes int8."""
        shift = _SIGNED if self.instruction.data == "int8" else 0

        def write(steps: Any, _zeros: Any, at: Any) -> None:
            store(target, steps - number(shift, LANES), at, LANES)

        rounded = round_state(state, begin, self.form.padded, write, adds_up=self.has_moved)
        return replace(rounded, zero=rounded.zero - number(shift))

    def _add_up(self, weights: Any, begin: Any, seen: Any) -> Any:
        instruction, lanes, depth = self.instruction, self.instruction.lanes, self.instruction.depth
        vectors, count = self.columns // lanes, lanes * instruction.group
        # One sum a column: with two, of every other use, a step takes 0.97 to 1.03 of the time (VNNI, Zen 4).
        totals = _zeros(self.columns, "int32", lanes)
        with T.serial(int64(self.inputs // depth)) as use:
            data = take(seen, use * depth, depth)
            for vector in range(vectors):
                at, place = T.Bind(begin + (use * vectors + vector) * (depth * lanes)), vector * lanes
                values = [take(weights, at + step * count, count) for step in range(instruction.steps)]
                store(totals, add_steps(instruction, take(totals, place, lanes), data, values), place, lanes)
        return totals


@dataclass(frozen=True)
class HalfBytes(DotProducts):
    """A product of weights with the half bytes of the state.

    The instruction vpmaddubsw adds the products in 16 bits, and another instruction widens the sums.
    """

    @property
    def inputs(self) -> int:
        """The number of state values, padded to whole groups of bytes."""
        return -(-self.form.hidden // _GROUP) * _GROUP

    def _order(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return the weights as sets of vectors x groups x vectors x lanes x inputs, after directions and panels."""
        lanes = self.instruction.lanes
        order = (-1, _GROUP, self.columns // lanes // TOGETHER, TOGETHER, lanes)
        ordered: NDArray[Any] = weights.reshape(*weights.shape[:2], *order).transpose(0, 1, 4, 2, 5, 6, 3)
        return ordered

    def allocate(self) -> Any:
        """Declare and return a private buffer of the low halves of all bytes, followed by the high halves."""
        return local(2 * self.form.padded, "uint8")

    def round(self, state: Any, begin: Any, target: Any) -> Rounded:
        """Round the state to bytes, and write their low and then their high 4 bits into ``target``."""

        def write(steps: Any, _zeros: Any, at: Any) -> None:
            whole = T.Bind(steps.astype(f"int32x{LANES}"))
            store(target, whole & tirx.const(15, f"int32x{LANES}"), at, LANES)
            store(target, whole >> tirx.const(4, f"int32x{LANES}"), at + self.form.padded, LANES)

        return round_state(state, begin, self.form.padded, write, adds_up=self.has_moved)

    def _add_up(self, weights: Any, begin: Any, seen: Any) -> Any:
        groups, lanes = self.inputs // _GROUP, self.instruction.lanes
        totals = _zeros(self.columns, "int32", lanes)
        blocks, left = divmod(groups, _EXACT)
        for first in range(0, self.columns // lanes, TOGETHER):
            start = begin + first * lanes * self.inputs
            if blocks:
                with T.serial(int64(blocks)) as block:
                    self._add_block((weights, start, seen), (totals, first), block * _EXACT, _EXACT)
            if left:
                self._add_block((weights, start, seen), (totals, first), int64(blocks * _EXACT), left)
        return totals

    def _add_block(self, operands: tuple[Any, Any, Any], target: tuple[Any, int], begin: Any, count: int) -> None:
        """Add the products of ``count`` groups from ``begin`` on to the totals.

        ``target`` is (totals, first vector).
        """
        (weights, start, seen), (totals, first) = operands, target
        lanes, size = self.instruction.lanes, _GROUP * self.instruction.lanes
        sums = _zeros(2 * TOGETHER * 2 * lanes, "int16", 2 * lanes)
        places = [(2 * vector + half) * 2 * lanes for vector in range(TOGETHER) for half in (0, 1)]
        with T.serial(int64(count)) as each:
            group = T.Bind(begin + each)
            data = [take(seen, half * self.form.padded + group * _GROUP, _GROUP) for half in (0, 1)]
            for index, place in enumerate(places):
                vector, half = divmod(index, 2)
                values = take(weights, start + (group * TOGETHER + vector) * size, size)
                added = add_halves(self.instruction, take(sums, place, 2 * lanes), data[half], values)
                store(sums, added, place, 2 * lanes)
        for index, place in enumerate(places):
            vector, half = divmod(index, 2)
            widened = widen_halves(self.instruction, take(sums, place, 2 * lanes), 16 if half else 1)
            at = (first + vector) * lanes
            store(totals, take(totals, at, lanes) + widened, at, lanes)


def choose_products(form: Recurrence, instruction: DotInstruction) -> DotProducts:
    """Return the faster product by this instruction: half bytes, if it has them, avoid widening the weights."""
    return HalfBytes(form, instruction) if instruction.halves else WholeBytes(form, instruction)


def _zeros(count: int, dtype: str, lanes: int) -> Any:
    """Return a private buffer that is filled with zeros in vectors."""
    buffer = local(count, dtype)
    for place in range(0, count, lanes):
        store(buffer, tirx.const(0, f"{dtype}x{lanes}"), place, lanes)
    return buffer
