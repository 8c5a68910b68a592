"""Where the numbers of one head lie, as functions write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.form import Attention, Operand


@dataclass(frozen=True)
class Place:
    """An operand's numbers of one head."""

    buffer: Any
    begin: Any
    """Of the head, in elements."""
    operand: Operand

    def at(self, row: Any, column: Any) -> Any:
        """Return where a number lies."""
        return self.begin + row * int64(self.operand.row) + column * int64(self.operand.column)


@dataclass(frozen=True)
class Places:
    """Those of an attention's operands."""

    query: Place
    key: Place
    value: Place
    masks: tuple[Place, ...]
    output: Place


def find_places(form: Attention, inputs: Sequence[Any], made: Any, head: Any) -> Places:
    """Write where the numbers of that head begin in the inputs and the output, which are flat."""
    heads, output = _split(head, form.heads), form.output

    def find(operand: Operand) -> Place:
        begin = int64(operand.offset)
        for index, step in zip(heads, operand.heads, strict=True):
            begin = begin + index * int64(step)
        return Place(made if operand is output else inputs[operand.source], T.Bind(begin), operand)

    masks = tuple(find(mask.operand) for mask in form.masks)
    return Places(find(form.query), find(form.key), find(form.value), masks, find(output))


def _split(index: Any, extents: tuple[int, ...]) -> list[Any]:
    found: list[Any] = []
    for extent in reversed(extents):
        found.insert(0, T.Bind(index % int64(extent)))
        index = index // int64(extent)
    return found
