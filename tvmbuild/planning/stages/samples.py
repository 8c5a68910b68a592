"""The files of real inputs, which the steps that judge a cell's accuracy read."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Metric
from tvmbuild.base.steps import METRIC, ORIGINAL, SAMPLE, TRUTHS
from tvmbuild.planning.subject import Subject


def list_judging_files(subject: Subject, root: Path) -> dict[str, Path]:
    """Return role → file for the real inputs, or an empty dict if the model names no samples.

    The roles are `sample 0`, `sample 1` and so on, `metric` for the user's Python file and `truths` for its data. The
    float model is `named original` if `accuracy:` names it, and `original` if the cell is built from a model that is
    quantised here.
    """
    accuracy = subject.model.accuracy
    if accuracy is None:
        return {}
    original = {"original": Layout(root).model_file(subject.model.name, "model.onnx")} if subject.is_quantised else {}
    samples = {f"{SAMPLE}{index}": root / path for index, path in enumerate(accuracy.paths)}
    if accuracy.original is not None:
        original[ORIGINAL] = root / accuracy.original
    return {**samples, **_list_metric_files(accuracy.metric, root), **original}


def _list_metric_files(metric: Metric | None, root: Path) -> dict[str, Path]:
    if metric is None:
        return {}
    return {METRIC: root / metric.script, **({} if metric.truths is None else {TRUTHS: root / metric.truths})}
