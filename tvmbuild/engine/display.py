"""The live line of a running step: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

import multiprocessing
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

FIRST_S, LONGEST_S = 5.0, 60.0
"""The seconds before the first line, and the longest time between two lines, without a terminal. Each wait is twice the
previous one.
"""
FRAMES_PER_S = 12.5
_PART_END = re.compile(r"(?=[;,] )")


class StepLine:
    """A step's name and its latest progress, on one line of the terminal at any width."""

    def __init__(self, step_id: str) -> None:
        from rich.spinner import Spinner  # noqa: PLC0415 - only needed for a step on a terminal

        self._step_id, self._progress = step_id, ""
        self._spinner = Spinner("dots")

    def show(self, progress: str) -> None:
        """Show the latest progress of the step."""
        self._progress = " ".join(progress.split())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the line, fitted to the present width of the window."""
        from rich.text import Text  # noqa: PLC0415 - as above

        frame = f"{self._spinner.render(console.get_time())} "
        line = fit(self._step_id, self._progress, options.max_width - len(frame))
        yield Text.assemble((frame, "status.spinner"), line, no_wrap=True, overflow="ellipsis")


def fit(step_id: str, progress: str, columns: int) -> str:
    """Return the step's name and its progress on one line of at most ``columns`` columns.

    The progress loses parts from its end, because its important parts come first. The name is cut only if the first
    part does not fit beside it. The line above shows the whole name.
    """
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - as above

    if not progress:
        return step_id
    parts = _PART_END.split(progress)
    longest = max(columns // 2, columns - 2 - cell_len(parts[0]))
    name = step_id if cell_len(step_id) <= longest else f"{set_cell_size(step_id, longest - 1)}…"
    line = f"{name}  {progress}"
    while cell_len(line) > columns and len(parts) > 1:
        parts.pop()
        line = f"{name}  {''.join(parts)}…"
    return line


@contextmanager
def show_progress(step_id: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a step's latest progress.

    On a terminal it updates one line. In a file, and for steps that run in parallel, it prints a few plain lines.
    """
    alone = multiprocessing.parent_process() is None and threading.current_thread() is threading.main_thread()
    if not (alone and sys.stdout.isatty()):
        yield _plain(step_id)
        return
    from rich.console import Console  # noqa: PLC0415 - only needed for a step on a terminal
    from rich.live import Live  # noqa: PLC0415 - as above

    console = Console()
    if console.is_dumb_terminal:  # it cannot go back to a line's beginning
        yield _plain(step_id)
        return
    line = StepLine(step_id)
    with Live(line, console=console, refresh_per_second=FRAMES_PER_S, transient=True):
        yield line.show


def _plain(step_id: str) -> Callable[[str], None]:
    shown, wait = time.monotonic(), FIRST_S

    def show(text: str) -> None:
        nonlocal shown, wait
        if time.monotonic() - shown >= wait:
            shown, wait = time.monotonic(), min(LONGEST_S, 2 * wait)
            print(f"   {step_id}  {text}", flush=True)

    return show
