"""Samples that calibrate a quantisation: too few, equal, or unlike the inputs that the model will see."""

from __future__ import annotations

import numpy as np
import onnx
from uneven_net import make_net

from tvmbuild.preparing.calibration import find_doubts, list_rounded, measure_ranges
from tvmbuild.preparing.quantisers.by_onnxruntime import quantise
from tvmbuild.preparing.quantisers.quantiser import Work

RANDOM = np.random.RandomState(3)
PICTURE = RANDOM.uniform(-1, 1, (1, 3, 16, 16))
Samples = list[dict[str, np.ndarray]]
ROUNDED = ("x", "r0", "m1", "s1", "y")


def draw(number: int, factor: float = 1.0) -> Samples:
    """Return the same picture in different brightness."""
    return [{"x": (PICTURE * factor * RANDOM.uniform(0.8, 1)).astype(np.float32)} for _ in range(number)]


def doubt(calibration: Samples, judged: Samples | None = None) -> tuple[str, ...]:
    net = make_net()
    seen = measure_ranges(net, ROUNDED, calibration, "looking")
    return find_doubts(seen, None if judged is None else measure_ranges(net, ROUNDED, judged, "looking"))


def test_what_is_rounded_is_looked_at() -> None:
    net: onnx.ModelProto = make_net()
    names = list_rounded(quantise(Work(make_net(), draw(4), ())), net)
    assert set(ROUNDED) - {"y"} <= set(names) <= {*ROUNDED, "c1"}
    flat = [{"x": np.full((1, 3, 16, 16), each, np.float32)} for each in (-2, 3)]
    ranges = measure_ranges(net, ["x"], flat, "looking")
    assert (ranges.low.tolist(), ranges.high.tolist()) == ([[-2.0], [0.0]], [[0.0], [3.0]])


def test_enough_samples_like_the_others_are_not_doubted() -> None:
    assert doubt(draw(32)) == ()
    assert doubt(draw(32), draw(40)) == ()


def test_few_samples_are_told() -> None:
    assert doubt(draw(1)) == ("one calibration sample tells nothing about ranges: give at least 20",)
    (few,) = doubt([*draw(1), *draw(1, 0.3)])
    assert few == (
        "2 calibration samples are too few: a single one widens 60% of the ranges by more than 10%; give at least 20"
    )
    one = draw(1)
    assert doubt(one * 3)[0] == "2 calibration samples of 3 equal others"


def test_samples_unlike_those_of_the_accuracy_are_told() -> None:
    (unlike,) = doubt(draw(32, 0.5), draw(40))
    assert unlike.startswith("the calibration samples are unlike those of `accuracy:`, which leave ")
    assert "(like ones would leave up to 6%)" in unlike
    assert " where calibration saw " in unlike
    assert doubt(draw(32), draw(40, 0.5)) == ()  # a narrower range loses steps, but no values
    samples = draw(32)
    assert doubt(samples, samples[:3]) == ("3 of 3 samples of `accuracy:` calibrated the quantisation, too",)
