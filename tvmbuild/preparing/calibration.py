"""Doubts about the samples that calibrate a quantisation: they are few, or unlike the inputs that the model will see.

Only the least and the largest value of each activation in each sample count, because they give the ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from onnx import helper

from tvmbuild.base.pace import Pace
from tvmbuild.base.wording import count
from tvmbuild.preparing.onnx_graph import with_outputs
from tvmbuild.preparing.reference import open_onnx

MOST_SAMPLES = 64
"""The number of samples of each kind that are looked at."""
FEW = 20
"""The number of samples that is asked for if there are fewer."""
FAR = 0.1
"""The smallest widening of a range by one sample that counts, as a share of the range."""
UNSETTLED = 0.25
"""The share of activations with a range that one sample widens far, above which the samples are too few. 2 samples of
yolox_nano and efficientnet_lite0 gave 48 and 43 %, 4 gave 26 and 32 %, 8 gave 18 and 20 %, 32 gave 11 and 6 %.
"""
OUTSIDE = 0.05
"""The share of ranges that other samples must leave far for the samples to be unlike. 64 other pictures left 0.3 % of
those of 32 pictures far (yolox_nano) and 0 % (efficientnet_lite0); of 32 pictures with their pixels in random order,
44 and 49 %.
"""


@dataclass(frozen=True)
class Ranges:
    """The least and the largest value of activations in each sample, and zero, which each range contains."""

    names: tuple[str, ...]
    low: np.ndarray
    """A row for each sample, a column for each activation."""
    high: np.ndarray


def list_rounded(quantised: Any, original: Any) -> tuple[str, ...]:
    """Return the inputs and activations of the float model ``original`` that its QDQ model rounds, in their order."""
    rounded = {node.input[0] for node in quantised.graph.node if node.op_type == "QuantizeLinear"}
    inputs = (value.name for value in original.graph.input)
    made = [*inputs, *(name for node in original.graph.node for name in node.output)]
    return tuple(name for name in dict.fromkeys(made) if name in rounded)


def measure_ranges(
    original: Any, names: Sequence[str], samples: Iterable[Mapping[str, np.ndarray]], what: str
) -> Ranges:
    """Return the ranges of the activations ``names`` of an ONNX ModelProto; ``what`` names the samples in progress."""
    ends = [
        helper.make_node(operator, [name], [f"{side} {index}"], keepdims=0)
        for index, name in enumerate(names)
        for operator, side in (("ReduceMin", "low"), ("ReduceMax", "high"))
    ]
    marked = with_outputs(original, [node.output[0] for node in ends])
    marked.graph.node.extend(ends)
    run, rows, pace = (
        open_onnx(marked.SerializeToString(), "the float model", optimized=True),
        [],
        Pace(what, None, "samples"),
    )
    for index, sample in enumerate(islice(samples, MOST_SAMPLES)):
        pace.report(index)
        found = run(sample)
        rows.append([[float(found[f"{side} {index}"]) for index in range(len(names))] for side in ("low", "high")])
    low, high = np.array(rows).reshape(-1, 2, len(names)).transpose(1, 0, 2)
    return Ranges(tuple(names), np.minimum(low, 0.0), np.maximum(high, 0.0))


def find_doubts(calibration: Ranges, judged: Ranges | None) -> tuple[str, ...]:
    """Return a sentence with figures for each reason to doubt the calibration.

    ``judged`` are the ranges in the samples of `accuracy:`, or None if the model names none.
    """
    if not calibration.names or not len(calibration.low):
        return ()
    others = () if judged is None or not len(judged.low) else _explain_others(calibration, judged)
    return (*_explain_few(calibration), *others)


def _explain_few(ranges: Ranges) -> Iterator[str]:
    total, distinct = len(ranges.low), len(_list_distinct(ranges))
    if distinct < total:
        yield f"{count(total - distinct, 'calibration sample')} of {total} equal others"
    if distinct == 1:
        yield f"one calibration sample tells nothing about ranges: give at least {FEW}"
        return
    low, high = np.sort(ranges.low, 0), -np.sort(-ranges.high, 0)
    width = _get_width(ranges)
    widened = (low[1] - low[0] + high[0] - high[1]) / width
    share = float(np.mean(widened > FAR))
    if share > UNSETTLED:
        advice = f"at least {FEW}" if total < FEW else "more of them, with other values"
        yield (
            f"{count(total, 'calibration sample')} {'is' if total == 1 else 'are'} too few: a single one widens "
            f"{share:.0%} of the ranges by more than {FAR:.0%}; give {advice}"
        )


def _explain_others(calibration: Ranges, judged: Ranges) -> Iterator[str]:
    seen = set(_list_distinct(calibration))
    same = sum(row in seen for row in _list_rows(judged))
    if same:
        yield f"{same} of {count(len(judged.low), 'sample')} of `accuracy:` calibrated the quantisation, too"
    least, largest, width = calibration.low.min(0), calibration.high.max(0), _get_width(calibration)
    beyond = np.maximum(least - judged.low, judged.high - largest) / width
    left, far, expected = float(np.mean(beyond > 0)), float(np.mean(beyond > FAR)), 2 / (len(seen) + 1)
    if left > expected and far > OUTSIDE:
        worst = int(np.argmax(np.median(beyond, axis=0)))
        reach = (judged.low[:, worst].min(), judged.high[:, worst].max())
        yield (
            f"the calibration samples are unlike those of `accuracy:`, which leave {left:.0%} of the ranges "
            f"(like ones would leave up to {expected:.0%}), {far:.0%} by more than {FAR:.0%}; most "
            f"{calibration.names[worst]}, {reach[0]:.3g} to {reach[1]:.3g} where calibration saw "
            f"{least[worst]:.3g} to {largest[worst]:.3g}"
        )


def _get_width(ranges: Ranges) -> np.ndarray:
    width: np.ndarray = ranges.high.max(0) - ranges.low.min(0)
    return np.where(width == 0, 1.0, width)


def _list_rows(ranges: Ranges) -> list[bytes]:
    return [low.tobytes() + high.tobytes() for low, high in zip(ranges.low, ranges.high, strict=True)]


def _list_distinct(ranges: Ranges) -> list[bytes]:
    return list(dict.fromkeys(_list_rows(ranges)))
