"""The libraries of a search's fastest candidates, kept until these are timed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tvmbuild.records.task_file import BEST


class Shelf:
    """At most BEST libraries, by their candidates' traces; the file of a displaced library is removed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, str]] = {}

    def put(self, trace: Callable[[], str], seconds: float, library: str) -> None:
        """Keep the library, or remove it if BEST faster ones are here; ``trace`` is called only if it is kept."""
        slowest = max(self._kept, key=lambda kept: self._kept[kept][0]) if len(self._kept) >= BEST else None
        if slowest is not None and self._kept[slowest][0] <= seconds:
            Path(library).unlink(missing_ok=True)
            return
        if slowest is not None:
            self._remove(slowest)
        self._remove(key := trace())
        self._kept[key] = (seconds, library)

    def find(self, trace: str) -> str | None:
        """Return the library of the candidate with that trace, if it is still here."""
        return self._kept.get(trace, (0.0, None))[1]

    def clear(self) -> None:
        """Remove all libraries."""
        for key in list(self._kept):
            self._remove(key)

    def _remove(self, key: str) -> None:
        _, library = self._kept.pop(key, (0.0, None))
        if library is not None:
            Path(library).unlink(missing_ok=True)
