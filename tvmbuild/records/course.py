"""The course of a Task's best time during its search, for people to look at, kept when the search is over.

`build/courses/<target>/<task key>.json` holds what remains of journals. It stays on this machine and is not in git.
This module imports no tvm.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.files import write_json
from tvmbuild.records.journal import Entry

FORMAT = 1


@dataclass(frozen=True)
class Course:
    """The course of a Task's best time on one device class for one target."""

    device_class: str
    target: str
    """The digest of the resolved target, as in a journal's entries."""
    points: tuple[tuple[int, float], ...]
    """The first best time and each improvement: (candidates measured so far, best time so far in seconds)."""
    measured: int
    """The number of all measured candidates, including those after the last improvement."""


def follow(entries: Sequence[Entry], before: Course | None = None) -> Course | None:
    """Return the course of the journal's entries for the last entry's device class and target.

    It continues the course ``before`` if that has the same device class and target. Without entries it is ``before``.
    """
    if not entries:
        return before
    last = entries[-1]
    goes_on = before is not None and (before.device_class, before.target) == (last.device_class, last.target)
    points = list(before.points) if before and goes_on else []
    measured = before.measured if before and goes_on else 0
    for entry in entries:
        if (entry.device_class, entry.target) != (last.device_class, last.target) or entry.measured <= measured:
            continue
        measured = entry.measured
        if entry.record is not None and (not points or entry.record.seconds < points[-1][1]):
            points.append((measured, entry.record.seconds))
    return Course(last.device_class, last.target, tuple(points), measured)


def write_course(path: Path, course: Course) -> None:
    """Publish the course as a JSON file."""
    value = {"device_class": course.device_class, "target": course.target, "measured": course.measured}
    write_json(path, {"format": FORMAT, **value, "points": [list(point) for point in course.points]})


def read_course(path: Path) -> Course | None:
    """Return the course in the file, or None if the file is absent, damaged or of another version."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        points = tuple((int(measured), float(seconds)) for measured, seconds in data["points"])
        if data["format"] != FORMAT or not all(0 < seconds < float("inf") for _, seconds in points):
            return None
        return Course(str(data["device_class"]), str(data["target"]), points, int(data["measured"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
