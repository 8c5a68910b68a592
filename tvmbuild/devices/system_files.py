"""The small files in which Linux shows counters and sensors."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str:
    """Return the text of a file, or nothing if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def read_number(path: Path) -> int | None:
    """Return the number in a file, which is not negative, or None if it cannot be read or has none."""
    text = read_text(path)
    return int(text) if text.isdigit() else None
