"""Operators that compute each row of a batch by itself: RoiAlign, convolutions, pools and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tvmbuild.compiler.importing.bounds.tracker import Tracker, cannot_follow


def by_rows(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write an operator whose rows are counted along the first axis; none of them reads another one."""
    data, *others = node.input
    lengths = tracker.lengths(data)
    if set(lengths) - {0} or any(tracker.is_counted(name) for name in others if name):
        raise cannot_follow(node, f"it reads across an axis of {tracker.said(data)!r} whose length depends on data")
    return [tracker.give(name, lengths) for name in tracker.copy(node)]


def roi_align(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a RoiAlign of counted regions; those of padding are regions of the first sample."""
    data, regions, samples = node.input
    lengths = tracker.lengths(regions)
    if tracker.is_counted(data) or set(lengths) - {0} or tracker.true_shape(samples) != tracker.true_shape(regions)[:1]:
        raise cannot_follow(node, "the numbers of its samples and regions depend on data and may differ")
    size = min(tracker.shape(samples)[0], tracker.shape(regions)[0])
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    cut = [tracker.cut(tracker.mask(name, 0), 0, size) for name in (regions, samples)]
    copy.input[:] = [data, *cut]
    return [tracker.give(tracker.copy(copy)[0], lengths)]
