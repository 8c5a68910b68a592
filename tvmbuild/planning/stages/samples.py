"""Files of real inputs among a step's own."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.specs import Accuracy
from tvmbuild.base.steps import SAMPLE


def name_samples(accuracy: Accuracy | None, root: Path) -> dict[str, Path]:
    """Return the files, each in a role of its own, `sample 0` first."""
    return {f"{SAMPLE}{index}": root / path for index, path in enumerate(accuracy.paths)} if accuracy else {}
