"""What a stage's process tells the terminal while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tvmbuild.base.masking import mask_credentials

PREFIX = "::progress "

_shown_by: list[Callable[[str], None]] = []


def report_progress(text: str) -> None:
    """Show ``text`` (one line) as the step's live state; the parent process reads it from our stdout.

    Credentials in URLs are masked.
    """
    if _shown_by:
        _shown_by[-1](mask_credentials(text))
    else:
        print(f"{PREFIX}{mask_credentials(text)}", flush=True)


@contextmanager
def progress_shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Give progress to ``show`` meanwhile: for a command that does a stage's work in its own process."""
    _shown_by.append(show)
    try:
        yield
    finally:
        _shown_by.pop()
