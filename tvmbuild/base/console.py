"""The rich console that prints tables."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.console import Console

PLAIN_WIDTH = 120


def make_console(file: TextIO | None = None) -> Console:
    """Return a console as wide as the terminal, or PLAIN_WIDTH columns wide for a log or a pipe.

    Rich itself would use 80 columns for a log. The variable COLUMNS overrides the width. ``file`` defaults to stdout.
    """
    out = file or sys.stdout
    fixed = not out.isatty() and "COLUMNS" not in os.environ
    return Console(file=out, width=PLAIN_WIDTH if fixed else None)
