"""Places of the batch in several inputs of a node, and in an axis that a node joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tvmbuild.preparing.rows.axis import Dependent, Node, Rows

Found = Rows | Sequence[Rows | None]
"""The place of the batch in all outputs, or in each of them."""
Rule = Callable[[Node], Found]


def agree(places: Iterable[Rows]) -> Rows:
    """Return the one place that inputs have in the output. Raises Dependent if they have several."""
    found = list(dict.fromkeys(places))
    if len(found) > 1:
        raise Dependent("its inputs have the batch on different axes")
    return found[0]


def align(node: Node, indices: Iterable[int], rank: int) -> Rows:
    """Return the place in an output of this rank, to whose last axes the inputs are aligned, as broadcasting does."""
    used = [index for index in indices if node.has(index)]
    shifts = {index: rank - len(node.shape(index)) for index in used}
    placed = [(each, shifts[index]) for index in used if (each := node.place(index)) is not None]
    place = agree(each.move(each.axis + shift) for each, shift in placed)
    for index in used:
        own = place.axis - shifts[index]
        if node.place(index) is None and own >= 0:
            node.require_one_value(index, place.move(own))
    return place


def place_of_first(node: Node) -> Rows:
    """Return the place in the first input. Raises Dependent if only other inputs depend on the batch."""
    place = node.place(0)
    if place is None:
        raise Dependent("only inputs beside the first one differ from row to row")
    return place


def normal_axis(axis: int, rank: int) -> int:
    """Return an axis as a number from 0 on."""
    return axis + rank if axis < 0 else axis


def refuse_axis(place: Rows, axes: Iterable[int], what: str) -> None:
    """Raise Dependent if the batch is on one of these axes."""
    if place.axis in axes:
        raise Dependent(f"it {what} along the axis of the batch")
