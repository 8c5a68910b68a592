"""The live line of a running step: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_S, LONGEST_S = 5.0, 60.0
"""Elsewhere than on a terminal: seconds to the first line, and between two at the most; each wait is twice the last."""


@contextmanager
def show_progress(step_id: str) -> Iterator[Callable[[str], None]]:
    """Yield what shows a step's latest progress. Steps that run side by side, and files, get plain lines, few."""
    alone = multiprocessing.parent_process() is None and threading.current_thread() is threading.main_thread()
    if not (alone and sys.stdout.isatty()):
        yield _plain(step_id)
        return
    from rich.console import Console  # noqa: PLC0415 - only where a step runs on a terminal
    from rich.markup import escape  # noqa: PLC0415 - as above

    with Console().status(step_id) as status:
        yield lambda text: status.update(f"{step_id}  {escape(text)}")


def _plain(step_id: str) -> Callable[[str], None]:
    shown, wait = time.monotonic(), FIRST_S

    def show(text: str) -> None:
        nonlocal shown, wait
        if time.monotonic() - shown >= wait:
            shown, wait = time.monotonic(), min(LONGEST_S, 2 * wait)
            print(f"   {step_id}  {text}", flush=True)

    return show
