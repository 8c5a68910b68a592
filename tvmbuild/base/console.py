"""The console for tables."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.console import Console

PLAIN_WIDTH = 120


def make_console(file: TextIO | None = None) -> Console:
    """Return a console as wide as the terminal. Logs and pipes get a fixed width instead of rich's 80."""
    out = file or sys.stdout
    fixed = not out.isatty() and "COLUMNS" not in os.environ
    return Console(file=out, width=PLAIN_WIDTH if fixed else None)
