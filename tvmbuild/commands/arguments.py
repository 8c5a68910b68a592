"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """Return a number over 0."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not over 0")
    return value


positive.__name__ = "positive integer"  # argparse's message has it
