"""Reports of bugs in our own passes and schedule rules: an error if TVMBUILD_RAISE_BUGS is set, else a package note.

A failing rule does not end a user's build, because a simpler rule can take its place; but it is always reported.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tvmbuild.package.metadata import BUG

RAISE_BUGS = "TVMBUILD_RAISE_BUGS"
"""The environment variable that turns notes about bugs into errors; tests and CI set it."""
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_FOLDERS = re.compile(r"""(?<=["'])/(?:[^"']*/)?(?=[^\s/"'])|(?<![\w./])/(?:[^\s/:'"]+/)*(?=[^\s/])""")
"""A pattern that matches the folders of an absolute path, without the file's name."""
_collected: ContextVar[dict[str, None] | None] = ContextVar("collected", default=None)


def report_bug(what: str, error: Exception) -> None:
    """Raise ``error`` if TVMBUILD_RAISE_BUGS is set; else report in one line that ``what`` failed.

    The line goes to the enclosing `collect_bugs`, or to standard error if no `collect_bugs` is active.
    """
    if os.environ.get(RAISE_BUGS, "0") not in {"", "0"}:
        raise error
    line = f"{BUG}{what} failed: {type(error).__name__}: {last_line(str(error))}"
    collected = _collected.get()
    if collected is None:
        print(line, file=sys.stderr)
    else:
        collected[line] = None


@contextmanager
def collect_bugs() -> Iterator[dict[str, None]]:
    """Yield a dictionary whose keys are the lines of the bugs reported in the block, each line once."""
    collected: dict[str, None] = {}
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def last_line(message: str) -> str:
    """Return the message's last line, at most 200 characters, without memory addresses and folders.

    The line becomes a note of the package, and packages must be reproducible.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return _FOLDERS.sub("", _ADDRESS.sub("0x…", lines[-1]))[:200] if lines else ""
