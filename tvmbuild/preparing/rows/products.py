"""The rules that find the place of the batch after matrix products, convolutions, pools and recurrent layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvmbuild.preparing.rows.axis import Dependent, Node, Rows, count
from tvmbuild.preparing.rows.places import Found, Rule, agree, place_of_first, refuse_axis


def samples(data: int = 1) -> Rule:
    """Return the rule of operators whose first ``data`` inputs have the batch on the first axis."""

    def rule(node: Node) -> Found:
        node.require_shared(*range(data, len(node.inputs)))
        place = _align_first(node, range(min(data, len(node.inputs))))
        if node.attribute("training_mode", 0):
            raise Dependent("it computes the statistics of the whole batch")
        if node.proto.op_type == "MaxPool" and len(node.proto.output) > 1 and node.proto.output[1]:
            raise Dependent("its indices count the elements of the whole batch")
        return place

    return rule


def _align_first(node: Node, indices: Iterable[int]) -> Rows:
    used = [index for index in indices if node.has(index)]
    place = agree(each for index in used if (each := node.place(index)) is not None)
    if place.axis != 0:
        raise Dependent(f"its samples are on axis 0, and the batch is on axis {place.axis}")
    for index in used:
        if node.place(index) is None:
            node.require_one_value(index, place)
    return place


def mat_mul(a: int = 0, b: int = 1, *, of_rows: Sequence[int] = (), of_columns: Sequence[int] = ()) -> Rule:
    """Return the rule of products whose factors are the inputs ``a`` and ``b``.

    Other inputs are the same for all. ``of_rows`` may have a value for each row of the first factor or of the product,
    ``of_columns`` for each column.
    """

    def rule(node: Node) -> Rows:
        others = [index for index in range(len(node.inputs)) if index not in (a, b)]
        node.require_shared(*others)
        left, right = len(node.shape(a)), len(node.shape(b))
        rank = len(node.output_shape())
        found = []
        for index, own, summed in ((a, left, left - 1), (b, right, max(0, right - 2))):
            place = node.place(index)
            if place is None:
                continue
            refuse_axis(place, [summed], "adds up")
            is_matrix = place.axis >= own - 2
            if not is_matrix:
                axis = place.axis + max(left, right) - own
                _check_partner(node, b if index == a else a, place, axis - max(left, right))
            elif index == a:
                axis = rank - 1 if right == 1 else rank - 2
            else:
                axis = rank - 1
            found.append(place.move(axis))
        place = agree(found)
        scales = of_rows if place.axis == rank - 2 else of_columns if place.axis == rank - 1 else ()
        for index in scales if rank > 1 else (*of_rows, *of_columns):
            if node.has(index) and count(node.shape(index)) > 1:
                raise Dependent(f"its input {node.inputs[index]} may have a value for each row")
        return place

    return rule


def _check_partner(node: Node, other: int, place: Rows, from_end: int) -> None:
    """Raise Dependent unless the factor that is broadcast along the batch has the same values for all rows."""
    own = len(node.shape(other)) + from_end
    if node.place(other) is None and own >= 0 and from_end < -2:
        node.require_one_value(other, place.move(own))


def gemm(node: Node) -> Rows:
    """Check that a Gemm multiplies the batch's rows by a matrix that all rows share; return the place of the batch."""
    node.require_shared(1)
    place = place_of_first(node)
    if place.axis != (1 if node.attribute("transA", 0) else 0):
        raise Dependent("it adds up along the axis of the batch")
    place = place.move(0)
    if node.has(2):
        own = len(node.shape(2)) - 2
        bias = node.place(2)
        if bias is not None and bias != place.move(0):
            raise Dependent("its inputs have the batch on different axes")
        if bias is None and own >= 0:
            node.require_one_value(2, place)
    return place


def einsum(node: Node) -> Rows:
    """Check that an Einsum keeps the letter of the batch in its result; return the place of the batch."""
    text = node.attribute("equation", b"").decode().replace(" ", "")
    terms, arrow, result = text.partition("->")
    if not arrow or "." in text:
        raise Dependent(f"its equation {text} does not name all axes")
    letters = terms.split(",")
    placed = {index: each for index in range(len(node.inputs)) if (each := node.place(index)) is not None}
    names = {letters[index][each.axis] for index, each in placed.items()}
    place = agree(each.move(0) for each in placed.values())
    if len(names) > 1:
        raise Dependent("its inputs have the batch on different axes")
    (name,) = names
    if name not in result or any(term.count(name) > 1 for term in letters):
        raise Dependent("it adds up along the axis of the batch")
    for index, term in enumerate(letters):
        if index not in placed and name in term:
            node.require_one_value(index, place.move(term.index(name)))
    return place.move(result.index(name))


def recurrent(node: Node) -> Found:
    """Check that the batch is on the operator's batch axis in each input; return the places in the outputs."""
    layout = int(node.attribute("layout", 0))
    data, state, all_states = (0, 0, 0) if layout else (1, 1, 2)
    node.require_shared(1, 2, 3, 7)
    wanted = {0: data, 4: 0, 5: state, 6: state}
    found = []
    for index, axis in wanted.items():
        place = node.place(index)
        if place is not None and place.axis != axis:
            raise Dependent("its inputs have the batch on other axes than the operator")
        found += [] if place is None else [place.move(0)]
    place = agree(found)
    for index, axis in wanted.items():
        if node.has(index) and node.place(index) is None:
            node.require_one_value(index, place.move(axis))
    return [place.move(axis) for axis in (all_states, state, state)][: len(node.proto.output)]
