"""Suggestions of a known word in place of an unknown one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase


def find_nearest(word: str, valid: Iterable[str]) -> str | None:
    """Return the valid word that is nearest to the misspelt ``word``, or None if none is near."""
    choices = sorted(valid)
    folded = {choice.casefold().replace("_", "-"): choice for choice in choices}
    found = difflib.get_close_matches(word.casefold().replace("_", "-"), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def suggest(nearest: str | None) -> str:
    """Return `Did you mean …? ` as the beginning of a hint, or an empty text if ``nearest`` is None."""
    return f"Did you mean {nearest}? " if nearest else ""


def is_pattern(word: str) -> bool:
    """Return whether the word is a glob, because it contains `*`, `?` or `[`."""
    return any(character in word for character in "*?[")


def find_nearest_pattern(pattern: str, step_ids: Iterable[str]) -> str | None:
    """Return a glob near ``pattern`` that matches a step, or None if there is none.

    Stage, model and target are corrected separately, because a wildcard in one part says nothing about the others.
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
    """Split `stage:model@target` into its parts, each with the separator before it.

    A part `:model` is therefore never compared with a part `@target`.
    """
    return re.split("(?=[:@])", step_id)
