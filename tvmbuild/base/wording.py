"""Lists and nouns in words, shortened or in the plural by their number."""

from __future__ import annotations

from collections.abc import Sequence


def name_some(names: Sequence[str], most: int = 6) -> str:
    """Return the names with commas, at most ``most`` of them: `a, b and 3 more`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


def count(number: int, noun: str) -> str:
    """Return the number with the noun, in the plural unless it is 1: `1 step`, `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
