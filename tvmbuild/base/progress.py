"""Progress messages from a stage's process to the terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from typing import TextIO

from tvmbuild.base.masking import mask_credentials

PREFIX = "::progress "

_shown_by: list[Callable[[str], None]] = []


def report_progress(text: str) -> None:
    """Show ``text`` (one line) as the step's live state. The parent process reads it from our stdout.

    The most important part comes first: a narrow terminal omits parts, between ``;`` or ``,``, from the end.
    Credentials in URLs are masked.
    """
    show = _shown_by[-1] if _shown_by else partial(_print_to, sys.stdout)
    show(mask_credentials(text))


def _print_to(stream: TextIO, text: str) -> None:
    print(f"{PREFIX}{text}", file=stream, flush=True)


def follow_output(stream: Iterable[bytes], show: Callable[[str], None]) -> Iterator[tuple[str, bool]]:
    """Yield each line of a process's output and whether it is progress, which is passed to ``show``.

    A terminal that is closed, or that knows ASCII only, does not stop the reading.
    """
    for raw in stream:
        line = raw.decode(errors="replace").rstrip("\n")
        is_progress = line.startswith(PREFIX)
        if is_progress:
            with suppress(OSError, ValueError):
                show(line.removeprefix(PREFIX))
        yield line.removeprefix("::") if is_progress else line, is_progress


@contextmanager
def progress_shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Pass progress messages to ``show`` in the context, for a command that does a stage's work in its own process."""
    _shown_by.append(show)
    try:
        yield
    finally:
        _shown_by.pop()


@contextmanager
def only_progress_printed() -> Iterator[None]:
    """Discard printed text in the context, for libraries that cannot be quiet. Progress is still shown."""
    show = _shown_by[-1] if _shown_by else partial(_print_to, sys.stdout)
    with progress_shown_by(show), redirect_stdout(io.StringIO()):
        yield
