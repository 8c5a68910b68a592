"""The compiled libraries of a search's fastest candidates, kept until these candidates are timed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tvmbuild.records.task_file import BEST


class Shelf:
    """A store of at most BEST libraries by their candidates' traces. It removes the file of a displaced library."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, str]] = {}

    def put(self, trace: Callable[[], str], seconds: float, library: str) -> None:
        """Keep the library of a candidate, or remove the file if BEST faster ones are here.

        ``seconds`` is the candidate's time. ``trace`` returns its trace and is called only if the library is kept.
        """
        slowest = max(self._kept, key=lambda kept: self._kept[kept][0]) if len(self._kept) >= BEST else None
        if slowest is not None and self._kept[slowest][0] <= seconds:
            Path(library).unlink(missing_ok=True)
            return
        if slowest is not None:
            self._remove(slowest)
        self._remove(key := trace())
        self._kept[key] = (seconds, library)

    def find(self, trace: str) -> str | None:
        """Return the path of the library of the candidate with this trace, or None if it is not kept."""
        return self._kept.get(trace, (0.0, None))[1]

    def clear(self) -> None:
        """Remove the files of all kept libraries."""
        for key in list(self._kept):
            self._remove(key)

    def _remove(self, key: str) -> None:
        _, library = self._kept.pop(key, (0.0, None))
        if library is not None:
            Path(library).unlink(missing_ok=True)
