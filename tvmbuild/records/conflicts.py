"""Files in which git has left both sides of a merge."""

from __future__ import annotations

import re
from pathlib import Path

from tvmbuild.errors import TvmbuildError

_MARKER = re.compile(r"^(?:<{7} |={7}$|>{7} )", re.MULTILINE)


class ConflictedRecordsError(TvmbuildError):
    """A file of records with both sides of a merge in it: neither may be lost, so it counts as nothing."""


def check_conflict(text: str, path: Path, remedy: str) -> None:
    """Raise ConflictedRecordsError, with that remedy, if there are markers of a merge in the file's text."""
    if _MARKER.search(text):
        raise ConflictedRecordsError(f"{path}: git has left both sides of a merge in it", remedy)
