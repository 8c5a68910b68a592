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


def address(text: str) -> str:
    """Return an address of the form host:port."""
    host, separator, port = text.rpartition(":")
    if not (host and separator and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT")
    return text


address.__name__ = "HOST:PORT"
