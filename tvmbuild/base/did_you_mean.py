"""Suggestions for an unknown word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase


def find_nearest(word: str, valid: Iterable[str]) -> str | None:
    """Return the valid word that is nearest to the misspelt ``word``, or None."""
    choices = sorted(valid)
    folded = {choice.casefold().replace("_", "-"): choice for choice in choices}
    found = difflib.get_close_matches(word.casefold().replace("_", "-"), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def suggest(nearest: str | None) -> str:
    """Return the sentence that begins a hint, with a space after it, or an empty text without a near word."""
    return f"Did you mean {nearest}? " if nearest else ""


def is_pattern(word: str) -> bool:
    """Return whether the word is a glob."""
    return any(character in word for character in "*?[")


def find_nearest_pattern(pattern: str, step_ids: Iterable[str]) -> str | None:
    """Return a glob near ``pattern`` that matches a step, or None.

    Stage, model and target are corrected separately, because the wildcard of one says nothing about the others.
    """
    ids = list(step_ids)
    wanted = _split(pattern)
    known = [parts for parts in map(_split, ids) if len(parts) == len(wanted)]
    corrected = []
    for index, part in enumerate(wanted):
        words = {parts[index] for parts in known}
        near = part if any(fnmatchcase(word, part) for word in words) else find_nearest(part, words)
        if near is None:
            return None
        corrected.append(near)
    found = "".join(corrected)
    return found if any(fnmatchcase(step_id, found) for step_id in ids) else None


def _split(step_id: str) -> list[str]:
    """Split `stage:model@target`. Each separator begins the part after it: only ids of one form compare."""
    return re.split("(?=[:@])", step_id)
