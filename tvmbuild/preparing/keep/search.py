"""The search for the cheapest groups that keep the accuracy if they stay in floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tvmbuild.base.pace import Pace
from tvmbuild.base.progress import report_progress
from tvmbuild.preparing.keep.groups import Group

MOST_REMOVALS, MOST_VAIN = 40, 8
"""The largest number of tries to leave out a group that was kept in vain, and of failed ones in a row."""

_INFINITE = 1000.0
"""The weight of an infinite error (an overflow), in multiples of the largest finite one."""

Kept = frozenset[str]
"""The names of groups that stay in floats."""


@dataclass(frozen=True)
class Judged:
    """The accuracy with some groups in floats."""

    is_enough: bool
    told: str
    """The figures, as a phrase."""
    shortfalls: tuple[str, ...] = ()
    margin: float = 0.0
    """The distance to the nearest threshold, negative if one is missed."""


Judge = Callable[[Kept], Judged]


@dataclass(frozen=True)
class Found:
    """The groups that stay in floats."""

    kept: Kept
    before: Judged
    """The accuracy with all groups quantised."""
    after: Judged
    harm: Mapping[str, float]
    """The group's share of the squared errors that each group alone causes."""
    trials: int = 0
    """The number of judged sets."""


def find_kept(groups: Sequence[Group], measure: Callable[[Kept], float], judge: Judge) -> Found | None:
    """Return a cheap set of groups with which the accuracy is enough, or None if no set is.

    ``measure`` returns the squared error of the outputs with a set of groups in floats. Each is quantised by itself:
    in a network in which all are, the errors of some hide those of others. Sets of the groups that harm most for their
    cost are then judged, each twice as large as the last, and the smallest that is enough is found by bisection. Then
    groups without which it is enough, too, are left out, the dearest first.
    """
    judged: dict[Kept, Judged] = {}

    def ask(kept: Collection[str]) -> Judged:
        key = frozenset(kept)
        if key not in judged:
            judged[key] = judge(key)
            report_progress(f"with {len(key)} of {len(groups)} groups in floats: {judged[key].told}")
        return judged[key]

    before = ask(())
    if before.is_enough:
        return Found(frozenset(), before, before, {}, len(judged))
    harm = _measure_harm(groups, measure)
    ordered = [each.name for each in sorted(groups, key=lambda each: -harm[each.name] / max(each.cost, 1.0))]
    length = _find_length(ordered, lambda names: ask(names).is_enough)
    if length is None:
        return None
    kept = _leave_out(ordered[:length], {each.name: each.cost for each in groups}, lambda names: ask(names).is_enough)
    return Found(kept, before, ask(kept), {name: harm[name] for name in sorted(kept)}, len(judged))


def _measure_harm(groups: Sequence[Group], measure: Callable[[Kept], float]) -> dict[str, float]:
    names = frozenset(each.name for each in groups)
    pace, errors = Pace("quantising each group alone", len(groups), "groups"), {}
    for index, group in enumerate(groups):
        pace.report(index)
        errors[group.name] = measure(names - {group.name})
    largest = max((error for error in errors.values() if math.isfinite(error)), default=0.0) or 1.0
    errors = {name: error if math.isfinite(error) else _INFINITE * largest for name, error in errors.items()}
    whole = sum(errors.values()) or 1.0
    return {name: error / whole for name, error in errors.items()}


def _find_length(ordered: Sequence[str], is_enough: Callable[[Sequence[str]], bool]) -> int | None:
    low, high = 0, 1
    while not is_enough(ordered[:high]):
        if high >= len(ordered):
            return None
        low, high = high, min(2 * high, len(ordered))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(ordered[:middle]) else (middle, high)
    return high


def _leave_out(names: Sequence[str], costs: Mapping[str, float], is_enough: Callable[[Sequence[str]], bool]) -> Kept:
    kept, vain = list(names), 0
    for name in sorted(names[:-1], key=lambda each: -costs[each])[:MOST_REMOVALS]:  # without the last it is not enough
        without = [each for each in kept if each != name]
        kept, vain = (without, 0) if is_enough(without) else (kept, vain + 1)
        if vain == MOST_VAIN:
            break
    return frozenset(kept)
