"""Bugs of our own passes and schedule rules: an error where TVMBUILD_RAISE_BUGS is set, else a note of the package.

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
"""The folders of an absolute path, without the file's name."""
_collected: ContextVar[dict[str, None] | None] = ContextVar("collected", default=None)


def report_bug(what: str, error: Exception) -> None:
    """Raise the error where TVMBUILD_RAISE_BUGS is set; elsewhere report in one line that ``what`` failed.

    The line goes to the enclosing `collect_bugs`, or to standard error outside of one.
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
    """Collect the lines of the bugs that are reported inside of the block, each once, as the keys of a dictionary."""
    collected: dict[str, None] = {}
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def last_line(message: str) -> str:
    """Return the message's last line without addresses and folders: a note is part of a reproducible package."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return _FOLDERS.sub("", _ADDRESS.sub("0x…", lines[-1]))[:200] if lines else ""
