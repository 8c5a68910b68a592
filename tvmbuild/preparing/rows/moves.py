"""The rules that find the place of the batch after operators that only move values: reshapes, slices and others."""

from __future__ import annotations

import numpy as np

from tvmbuild.preparing.rows.axis import Dependent, Node, Rows, count
from tvmbuild.preparing.rows.places import agree, align, normal_axis, place_of_first, refuse_axis


def transpose(node: Node) -> Rows:
    """Return the axis to which a Transpose moves the batch."""
    place, rank = place_of_first(node), len(node.shape(0))
    perm = list(node.attribute("perm", range(rank - 1, -1, -1)))
    return place.move(perm.index(place.axis))


def reshape(node: Node) -> Rows:
    """Return the axis of a Reshape's output in which the rows lie as in the input's memory."""
    node.require_shared(*range(1, len(node.inputs)))
    place, before, after = place_of_first(node), node.shape(0), node.output_shape()
    outer, inner = count(before[: place.axis]) * place.outer, place.inner * count(before[place.axis + 1 :])
    for axis, length in enumerate(after):
        left, right = count(after[:axis]), count(after[axis + 1 :])
        fits = left > 0 and right > 0 and outer % left == 0 and inner % right == 0
        if fits and length == outer // left * node.rows * (inner // right):
            return Rows(axis, outer // left, inner // right)
    raise Dependent(f"it changes the shape {list(before)} to {list(after)}, which joins parts of several rows")


def concat(node: Node) -> Rows:
    """Check that a Concat joins tensors along another axis than the batch; return the place of the batch."""
    rank = len(node.output_shape())
    place = align(node, range(len(node.inputs)), rank)
    refuse_axis(place, [normal_axis(int(node.attribute("axis", 0)), rank)], "joins tensors")
    return place


def split_axes(node: Node) -> Rows:
    """Check that an operator splits along another axis than the batch; return the place of the batch."""
    node.require_shared(*range(1, len(node.inputs)))
    place = place_of_first(node)
    refuse_axis(place, [normal_axis(int(node.attribute("axis", 0)), len(node.shape(0)))], "splits")
    return place


def same_length(node: Node) -> Rows:
    """Return the same place if neither the length of its axis nor the number of axes before it changes."""
    node.require_shared(*range(1, len(node.inputs)))
    place, before, after = place_of_first(node), node.shape(0), node.output_shape()
    moved = place.move(place.axis + len(after) - len(before))
    if before[place.axis] != after[moved.axis]:
        raise Dependent("it changes the length of the axis of the batch")
    return moved


def resize(node: Node) -> Rows:
    """Check that a Resize does not change the axis of the batch; return the place of the batch."""
    if node.attribute("coordinate_transformation_mode", b"") == b"tf_crop_and_resize":
        raise Dependent("it cuts regions of interest")
    return same_length(node)


def slice_axes(node: Node) -> Rows:
    """Check that a Slice leaves the axis of the batch whole; return the place of the batch."""
    node.require_shared(*range(1, len(node.inputs)))
    place = place_of_first(node)
    for axis, start, end, step in list_slices(node):
        if axis == place.axis and not (start == 0 and step == 1 and end >= node.shape(0)[axis]):
            raise Dependent("it takes some rows of the batch")
    return place


def list_slices(node: Node) -> list[tuple[int, int, int, int]]:
    """Return the axis, start, end and step of each axis that a Slice cuts."""
    starts, ends = node.numbers("starts", 1) or [], node.numbers("ends", 2) or []
    axes = node.numbers("axes", 3) or list(range(len(starts)))
    steps = node.numbers("steps", 4) or [1] * len(starts)
    rank = len(node.shape(0))
    return list(zip((normal_axis(each, rank) for each in axes), starts, ends, steps, strict=True))


def pad(node: Node) -> Rows:
    """Check that a Pad does not pad the axis of the batch; return the place of the batch."""
    node.require_shared(*range(1, len(node.inputs)))
    place, rank = place_of_first(node), len(node.shape(0))
    pads, axes = node.numbers("pads", 1) or [], node.numbers("axes", 3) or list(range(rank))
    for number, axis in enumerate(axes):
        if normal_axis(axis, rank) == place.axis and (pads[number] or pads[number + len(axes)]):
            raise Dependent("it adds rows to the batch")
    return place


def gather(node: Node) -> Rows:
    """Return the place of the batch after a Gather from a table that all rows share, or along another axis."""
    axis = normal_axis(int(node.attribute("axis", 0)), len(node.shape(0)))
    indices = node.place(1)
    if indices is not None:
        if node.place(0) is not None:
            raise Dependent("both its data and its indices differ from row to row")
        return indices.move(axis + indices.axis)
    data = place_of_first(node)
    refuse_axis(data, [axis], "picks rows")
    return data if data.axis < axis else data.move(data.axis + len(node.shape(1)) - 1)


def gather_elements(node: Node) -> Rows:
    """Check that elements are picked or written along another axis than the batch; return the place of the batch."""
    rank = len(node.shape(0))
    place = align(node, range(len(node.inputs)), rank)
    refuse_axis(place, [normal_axis(int(node.attribute("axis", 0)), rank)], "picks or writes elements")
    return place


def gather_nd(node: Node) -> Rows:
    """Return the place of the batch after a GatherND from a table that all rows share, or within each row."""
    data, indices, batched = node.place(0), node.place(1), int(node.attribute("batch_dims", 0))
    if data is None and indices is not None and batched == 0 and indices.axis < len(node.shape(1)) - 1:
        return indices
    place = agree(each for each in (data, indices) if each is not None)
    if data is None or indices is None or place.axis >= batched:
        raise Dependent("it picks elements of all rows")
    return place


def scatter_nd(node: Node) -> Rows:
    """Check that a ScatterND writes at the same places of all rows; return the place of the batch."""
    node.require_shared(1)
    place, depth = node.place(0), node.shape(1)[-1]
    updates = node.place(2)
    if place is None:
        raise Dependent("it writes rows into values that all rows share")
    if place.axis >= depth:  # the indices are of other axes
        wanted = place.move(place.axis - depth + len(node.shape(1)) - 1)
    elif list_written(node) is not None:
        wanted = place.move(0)
    else:
        raise Dependent("it writes to some rows of the batch")
    if updates is None:
        node.require_one_value(2, wanted)
    elif updates != wanted:
        raise Dependent("its updates have the batch on another axis than their places")
    return place


def list_written(node: Node) -> np.ndarray | None:
    """Return the places in a row to which a ScatterND writes, if its indices name each row once, in their order.

    The indices are [rows, …, axes]. Each of the rows writes to itself, and all at the same places.
    """
    place, indices = node.place(0), node.constants.get(node.inputs[1])
    if place is None or not place.is_whole or indices is None or indices.ndim < 2 or len(indices) != node.rows:
        return None
    if place.axis >= indices.shape[-1]:
        return None
    named, others = indices[..., place.axis], np.delete(indices, place.axis, -1)
    rows = np.arange(node.rows).reshape(-1, *[1] * (named.ndim - 1))
    return others[0] if (named == rows).all() and (others == others[:1]).all() else None


def trilu(node: Node) -> Rows:
    """Check that a Trilu cuts its triangle out of other axes than the batch; return the place of the batch."""
    node.require_shared(1)
    place, rank = place_of_first(node), len(node.shape(0))
    refuse_axis(place, [rank - 2, rank - 1], "cuts a triangle")
    return place
