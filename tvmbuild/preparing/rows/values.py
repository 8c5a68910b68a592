"""The rules that find the place of the batch after operators that compute within a row: elementwise, sums, norms."""

from __future__ import annotations

from collections.abc import Sequence

from tvmbuild.preparing.rows.axis import Dependent, Node, Rows, count
from tvmbuild.preparing.rows.places import Rule, align, normal_axis, place_of_first, refuse_axis


def elementwise(node: Node) -> Rows:
    """Return the place of the batch after an elementwise operator with broadcasting."""
    place = align(node, range(len(node.inputs)), len(node.output_shape()))
    for index in range(len(node.inputs)):
        own = node.place(index)
        if own is not None and node.shape(index)[own.axis] != node.output_shape()[place.axis]:
            raise Dependent("it spreads the batch over a longer axis")
    return place


def dropout(node: Node) -> Rows:
    """Return the place of the batch after a Dropout, which changes nothing outside of training."""
    training = node.constant(2)
    if training is not None and training.any():
        raise Dependent("its numbers are random")
    return like_first(node)


def like_first(node: Node) -> Rows:
    """Return the place in the first input. Raises Dependent if another input depends on the batch."""
    node.require_shared(*range(1, len(node.inputs)))
    return place_of_first(node)


def along_axis(default: int, *, flat_before: int = 0) -> Rule:
    """Return the rule of operators that join values along one axis: of `axis`, or of all after it in old opsets."""

    def rule(node: Node) -> Rows:
        place, rank = place_of_first(node), len(node.shape(0))
        node.require_shared(*range(1, len(node.inputs)))
        is_flat = node.opset < flat_before
        axis = normal_axis(int(node.attribute("axis", 1 if is_flat else default)), rank)
        refuse_axis(place, range(axis, rank) if is_flat else [axis], "joins values")
        return place

    return rule


def after_axis(node: Node) -> Rows:
    """Check that the batch is before the normalised axes, those from `axis` on; return the place of the batch."""
    place, rank = place_of_first(node), len(node.shape(0))
    axis = normal_axis(int(node.attribute("axis", -1)), rank)
    node.require_shared(*range(1, len(node.inputs)))
    refuse_axis(place, range(axis, rank), "normalises")
    return place


def reduce_axes(node: Node) -> Rows:
    """Check that a reduction is along other axes than the batch; return the place of the batch."""
    place, rank = place_of_first(node), len(node.shape(0))
    node.require_shared(*range(1, len(node.inputs)))
    axes = node.numbers("axes", 1)
    if not axes:
        if node.attribute("noop_with_empty_axes", 0):
            return place
        axes = list(range(rank))
    return _drop(node, place, [normal_axis(each, rank) for each in axes])


def arg(node: Node) -> Rows:
    """Return the place of the batch after an ArgMax or ArgMin along another axis."""
    return _drop(node, place_of_first(node), [normal_axis(int(node.attribute("axis", 0)), len(node.shape(0)))])


def _drop(node: Node, place: Rows, axes: Sequence[int]) -> Rows:
    """Return the place after a reduction of axes."""
    refuse_axis(place, axes, "reduces")
    kept = bool(node.attribute("keepdims", 1))
    return place if kept else place.move(place.axis - sum(each < place.axis for each in set(axes)))


def mean_variance(node: Node) -> Rows:
    """Check that a MeanVarianceNormalization is along other axes than the batch; return the place of the batch."""
    place, rank = place_of_first(node), len(node.shape(0))
    refuse_axis(place, [normal_axis(each, rank) for each in node.attribute("axes", [0, 2, 3])], "normalises")
    return place


def cum_sum(node: Node) -> Rows:
    """Check that a CumSum adds up along another axis than the batch; return the place of the batch."""
    place, axis = place_of_first(node), node.constant(1)
    if axis is None:
        raise Dependent("its axis is not known")
    refuse_axis(place, [normal_axis(int(axis.reshape(-1)[0]), len(node.shape(0)))], "adds up")
    return place


def quantise(node: Node) -> Rows:
    """Check that a quantisation has the same scales for all rows; return the place of the batch."""
    place = like_first(node)
    if count(node.shape(1)) > 1:
        rank = len(node.shape(1))
        axes = (
            [normal_axis(int(node.attribute("axis", 1)), len(node.shape(0)))]
            if rank == 1
            else range(len(node.shape(0)))
        )
        refuse_axis(place, axes, "has scales")
    return place


def one_hot(node: Node) -> Rows:
    """Return the place of the batch after a OneHot, which inserts an axis."""
    node.require_shared(1, 2)
    place, axis = place_of_first(node), normal_axis(int(node.attribute("axis", -1)), len(node.output_shape()))
    return place if place.axis < axis else place.move(place.axis + 1)
