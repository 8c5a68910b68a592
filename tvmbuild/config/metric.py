"""The conversion of `metric` in a model's `accuracy` to a Metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvmbuild.base.specs import Metric
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath
from tvmbuild.config.named_files import check_file, relative_path

_NEEDS_METRIC = ("truths", "drop", "at_least")


def check_metric(document: Document, root: Path, path: KeyPath, own: dict[str, Any]) -> None:
    """Report missing files of the metric, and its options without it.

    ``path`` leads to `accuracy`. ``own`` is the map of the whole model.
    """
    data = own.get("accuracy")
    if not isinstance(data, dict) or not document.is_sound(path):
        return
    if "metric" not in data:
        for key in _NEEDS_METRIC:
            if key in data:
                document.report_key((*path, key), "there is no metric that it belongs to", "`metric`")
        return
    required = own.get("enabled", True) is not False
    script, _, _ = data["metric"].rpartition(":")
    check_file(document, root, (*path, "metric"), script, must_exist=required)
    if "truths" in data:
        check_file(document, root, (*path, "truths"), data["truths"], must_exist=required)


def make_metric(root: Path, accuracy: dict[str, Any]) -> Metric | None:
    """Return the metric of a model's `accuracy`, or None if it names none."""
    if "metric" not in accuracy:
        return None
    script, _, function = accuracy["metric"].rpartition(":")
    limits = {name: float(accuracy[name]) for name in ("drop", "at_least") if name in accuracy}
    truths = accuracy.get("truths")
    return Metric(
        relative_path(root, script), function, None if truths is None else relative_path(root, truths), **limits
    )
