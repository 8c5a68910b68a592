"""Files in which git has left both sides of a merge."""

from __future__ import annotations

import re
from pathlib import Path

from tvmbuild.errors import TvmbuildError

_MARKER = re.compile(r"^(?:<{7} |={7}$|>{7} )", re.MULTILINE)


class ConflictedRecordsError(TvmbuildError):
    """A file of records with both sides of a merge in it: neither may be lost, so the file cannot be used."""


def check_conflict(text: str, path: Path, remedy: str) -> None:
    """Raise ConflictedRecordsError, with that remedy, if the file's text has markers of a merge."""
    if _MARKER.search(text):
        raise ConflictedRecordsError(f"{path}: git has left both sides of a merge in it", remedy)
