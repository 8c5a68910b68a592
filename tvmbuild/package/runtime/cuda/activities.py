"""The card's activities as the events and the CUDA graph of a profile: values, free of CUPTI and of TVM."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tvmbuild.package.profile import VM_PREFIX, Event, GraphTime

COPY = f"{VM_PREFIX}copy"
"""The name of an activity that is not a kernel: a copy or a fill. It counts as the virtual machine's, whoever asked."""
_KERNEL = re.compile(r"(.+)_kernel(?:_\d+)?")
"""TVM names the kernels of a function after it: `f_kernel`, `f_kernel_1`, …"""


class Activity(NamedTuple):
    """One kernel or copy, as the card ran it."""

    name: str
    """A kernel's name in the library, or ``COPY``."""
    start: int
    """Nanoseconds by the card's clock."""
    end: int
    graph: int
    """The CUDA graph that contains it as a node. 0: launched alone."""


def name_function(kernel: str) -> str:
    """Return the function of a kernel, or the kernel's own name if TVM did not name it."""
    found = _KERNEL.fullmatch(kernel)
    return kernel if found is None else found[1]


def take_turns(activities: Sequence[Activity]) -> list[Activity]:
    """Return the activities in order of start, with each start moved behind the end of the activity before it."""
    turns: list[Activity] = []
    over = 0
    for each in sorted(activities, key=lambda activity: activity.start):
        turns.append(each._replace(start=min(each.end, max(each.start, over))))
        over = max(over, each.end)
    return turns


def list_events(activities: Sequence[Activity]) -> list[Event]:
    """Return one event a call of a function, from the card's activities in one run of the model.

    A call launches each kernel of its function once, so the n-th launches of all its kernels belong to the n-th call.
    Events are in the order in which calls began.
    """
    seen: Counter[str] = Counter()
    calls: dict[tuple[str, int], int] = defaultdict(int)
    for each in take_turns(activities):
        calls[name_function(each.name), seen[each.name]] += each.end - each.start
        seen[each.name] += 1
    return [(function, nanoseconds) for (function, _), nanoseconds in calls.items()]


def summarize_graph(runs: Sequence[Sequence[Activity]]) -> GraphTime | None:
    """Return the total time of the CUDA graphs of a run, medians over the runs, or None if no run has one."""
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
