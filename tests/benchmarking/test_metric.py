"""The user's metric: real scripts in real processes, good and bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tvmbuild.base.specs import Accuracy, Metric
from tvmbuild.benchmarking.accuracy import compare_samples
from tvmbuild.benchmarking.agreement import Agreement, check_agreement, read_agreement
from tvmbuild.benchmarking.metric import MetricRun
from tvmbuild.errors import TvmbuildError, VerdictError

pytestmark = pytest.mark.usefixtures("own_folders")
OUTPUTS = [
    {"scores": np.array([[0.1, 0.9]], np.float32), "n": np.array([2])},
    {"scores": np.zeros((1, 2)), "n": np.ones(1)},
]
NAMES = ["a.png", "b.png"]


@pytest.fixture
def compute(tmp_path: Path) -> Callable[..., float]:
    """Return a function that runs the text as a metric on OUTPUTS."""

    def run(text: str, truths: str | None = None, function: str = "score") -> float:
        (tmp_path / "score.py").write_text(text)
        metric = MetricRun(Metric("score.py", function, truths), tmp_path, tmp_path / "outputs")
        for name, outputs in zip(NAMES, OUTPUTS, strict=True):
            metric.add(name, outputs)
        return metric.compute()

    return run


def test_a_metric_gets_outputs_names_and_truths(compute: Callable[..., float], tmp_path: Path) -> None:
    (tmp_path / "truths.json").write_text('{"a.png": 1, "b.png": 1}')
    (tmp_path / "helper.py").write_text("def best(scores):\n    return int(scores.argmax())\n")
    text = """\
import json
from helper import best

def score(outputs, samples, truths):
    right = json.loads(truths.read_text())
    assert len(outputs) == 2 and list(outputs[0]) == ["scores", "n"] and outputs[-1]["n"] == 1
    assert [each["n"].item() for each in outputs[:1]] == [2]
    return sum(best(each["scores"]) == right[name] for each, name in zip(outputs, samples)) / len(samples)
"""
    assert compute(text, "truths.json") == 0.5


BAD = {
    "an error": (
        "def half(outputs):\n    return 1 / 0\n\ndef score(outputs, samples):\n    return half(outputs)\n",
        r"^score\.py:2: in half: ZeroDivisionError: division by zero\n  \| score\.py:5: in score: return half\(out",
    ),
    "a syntax error": (
        "def score(outputs, samples):\n    return (\n",
        r"^score\.py:2: SyntaxError: '\(' was never closed",
    ),
    "no number": (
        "def score(outputs, samples):\n    return outputs[0]\n",
        r"score returned dict, not a number",
    ),
    "nothing": ("def score(outputs, samples):\n    pass\n", r"score\.py:score returned NoneType, not a number"),
    "NaN": ("def score(outputs, samples):\n    return float('nan')\n", r"score\.py:score returned nan"),
    "one parameter": (
        "def score(outputs):\n    return 1\n",
        r"score\.py:score\(outputs\) cannot be called with \(outputs, samples\): too many positional arguments",
    ),
    "another function": (
        "def scores(outputs, samples):\n    return 1\n",
        r"score\.py has no function score; its functions are scores",
    ),
    "an end": (
        "import os\n\ndef score(outputs, samples):\n    os._exit(3)\n",
        r"ended its process with the status 3 and returned no number",
    ),
    "a crash": (
        "import ctypes\n\ndef score(outputs, samples):\n    ctypes.string_at(0)\n",
        r"score\.py:4: in score: score\.py:score crashed with SIGSEGV",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_metric_that_fails_is_told_by_its_line(compute: Callable[..., float], name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(TvmbuildError, match=message) as found:
        compute(text)
    assert found.value.hint


def test_a_metric_that_finds_no_number_is_no_silent_zero(compute: Callable[..., float]) -> None:
    assert compute("def score(outputs, samples):\n    return True\n") == 1.0


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Metric("s.py", "f", drop=0.1), None),
        (
            Metric("s.py", "f", drop=0.04),
            r"s\.py:f is 0\.6 \(the original's 0\.65\), which is 0\.05 less, allowed is 0\.04",
        ),
        (Metric("s.py", "f", at_least=0.6), None),
        (Metric("s.py", "f", at_least=0.62), r"s\.py:f is 0\.6 \(the original's 0\.65\), asked for is at least 0\.62"),
    ],
)
def test_thresholds_of_a_metric(metric: Metric, message: str | None) -> None:
    agreement = Agreement(4, 4, 0.0, 1.0, metric=0.6, metric_original=0.65)
    assert read_agreement(agreement.to_json()) == agreement
    assert agreement.describe().endswith("metric 0.6, the original's 0.65")
    asked = Accuracy("images", ("a.png",), metric=metric)
    if message is None:
        check_agreement(agreement, asked)
        return
    with pytest.raises(VerdictError, match=message):
        check_agreement(agreement, asked)


def test_a_metric_that_rises_does_not_drop() -> None:
    assert Agreement(4, 4, 0.0, 1.0, metric=0.7, metric_original=0.65).drop == 0.0


def test_the_samples_of_both_models_are_handed_over() -> None:
    seen = []
    inputs = [(name, {"x": np.full((1, 1), index)}) for index, name in enumerate(NAMES)]
    compare_samples(inputs, lambda x: {"y": x["x"] + 1}, lambda x: {"y": x["x"]}, keep=lambda *each: seen.append(each))
    assert [(name, got["y"].item(), want["y"].item()) for name, got, want in seen] == [("a.png", 1, 0), ("b.png", 2, 1)]
