"""The folders of a step's outputs for the sizes of its model."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from tvmbuild.base.layout import Layout


def remove_other_sizes(output: Path, names: Collection[str]) -> None:
    """Remove the folders of sizes that the model does not have any more. ``output`` is the largest size's file."""
    folder = Layout(output.parent).sizes(output.parent)
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        if each.name not in names:
            shutil.rmtree(each)
    if not names:
        folder.rmdir()
