"""The real inputs among the files of the steps that judge a cell's accuracy."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import SAMPLE
from tvmbuild.planning.subject import Subject


def list_judging_files(subject: Subject, root: Path) -> dict[str, Path]:
    """Return the files, each with its own role, `sample 0` first; empty if the model names no samples.

    The float model is added as `original` if the cell is built from one that is quantised here.
    """
    accuracy = subject.model.accuracy
    if accuracy is None:
        return {}
    original = {"original": Layout(root).model_file(subject.model.name, "model.onnx")} if subject.is_quantised else {}
    return {**{f"{SAMPLE}{index}": root / path for index, path in enumerate(accuracy.paths)}, **original}
