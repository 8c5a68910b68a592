"""Files in which git has left both sides of a merge."""

from __future__ import annotations

import re
from pathlib import Path

from tvmbuild.errors import TvmbuildError

_MARKER = re.compile(r"^(?:<{7} |={7}$|>{7} )", re.MULTILINE)


class ConflictedRecordsError(TvmbuildError):
    """The error that a file of records holds both sides of a git merge. Neither side may be lost."""


def check_conflict(text: str, path: Path, remedy: str) -> None:
    """Raise ConflictedRecordsError if ``text``, the contents of the file, has git's merge markers."""
    if _MARKER.search(text):
        raise ConflictedRecordsError(f"{path}: git has left both sides of a merge in it", remedy)
