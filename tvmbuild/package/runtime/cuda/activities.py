"""Conversion of a card's activities into a profile's events and CUDA graph. This module needs neither CUPTI nor TVM."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tvmbuild.package.profile import VM_PREFIX, Event, GraphTime

COPY = f"{VM_PREFIX}copy"
"""The name of an activity that is a copy or a fill, not a kernel. It always counts as work of the virtual machine."""
_KERNEL = re.compile(r"(.+)_kernel(?:_\d+)?")
"""The names that TVM gives to the kernels of a function f: `f_kernel`, `f_kernel_1`, …"""


class Activity(NamedTuple):
    """A run of one kernel, copy or fill on the card."""

    name: str
    """The kernel's name in the library, or ``COPY``."""
    start: int
    """The beginning, in nanoseconds by the card's clock."""
    end: int
    """The end, in nanoseconds by the card's clock."""
    graph: int
    """The id of the CUDA graph that contains the activity as a node. 0 if it was launched by itself."""


def name_function(kernel: str) -> str:
    """Return the name of the function to which a kernel belongs, or the kernel's own name if TVM did not name it."""
    found = _KERNEL.fullmatch(kernel)
    return kernel if found is None else found[1]


def take_turns(activities: Sequence[Activity]) -> list[Activity]:
    """Return the activities in order of their starts, without overlaps.

    If an activity starts before an earlier one has ended, its start is moved to that end.
    """
    turns: list[Activity] = []
    over = 0
    for each in sorted(activities, key=lambda activity: activity.start):
        turns.append(each._replace(start=min(each.end, max(each.start, over))))
        over = max(over, each.end)
    return turns


def list_events(activities: Sequence[Activity]) -> list[Event]:
    """Return one event for each call of a function, from the card's activities in one run of the model.

    A call launches each kernel of its function once, so the n-th launches of all these kernels belong to the n-th call.
    The events are in the order in which the calls began.
    """
    seen: Counter[str] = Counter()
    calls: dict[tuple[str, int], int] = defaultdict(int)
    for each in take_turns(activities):
        calls[name_function(each.name), seen[each.name]] += each.end - each.start
        seen[each.name] += 1
    return [(function, nanoseconds) for (function, _), nanoseconds in calls.items()]


def summarize_graph(runs: Sequence[Sequence[Activity]]) -> GraphTime | None:
    """Return the time of the CUDA graphs in one run, as medians over ``runs``, or None if no run has a graph."""
    graphs = [_group_nodes(run) for run in runs]
    graphs = [nodes for nodes in graphs if nodes]
    if not graphs:
        return None
    return GraphTime(
        kernels=round(statistics.median(sum(map(len, nodes)) for nodes in graphs)),
        sum_us=statistics.median(sum(each.end - each.start for node in nodes for each in node) for nodes in graphs)
        / 1e3,
        us=statistics.median(sum(map(_span, nodes)) for nodes in graphs) / 1e3,
    )


def _group_nodes(run: Sequence[Activity]) -> list[list[Activity]]:
    nodes: dict[int, list[Activity]] = defaultdict(list)
    for each in take_turns(run):
        if each.graph:
            nodes[each.graph].append(each)
    return list(nodes.values())


def _span(nodes: Sequence[Activity]) -> int:
    return max(each.end for each in nodes) - min(each.start for each in nodes)
