"""What the card told of its work as the events and the CUDA graph of a profile: values, free of CUPTI and of TVM."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tvmbuild.package.profile import VM_PREFIX, Event, GraphTime

COPY = f"{VM_PREFIX}copy"
"""The name of what is no kernel: a copy, or memory that is filled; the virtual machine's, whoever asked for it."""
_KERNEL = re.compile(r"(.+)_kernel(?:_\d+)?")
"""TVM calls the kernels of a function after it: `f_kernel`, `f_kernel_1`, and so on."""


class Activity(NamedTuple):
    """One kernel or copy, as the card did it."""

    name: str
    """A kernel's, in the library; ``COPY``."""
    start: int
    """Nanoseconds, by a clock of the card's."""
    end: int
    graph: int
    """The CUDA graph that it is a node of; 0: launched alone."""


def name_function(kernel: str) -> str:
    """Return the function whose kernel it is; the kernel's own name where TVM did not name it."""
    found = _KERNEL.fullmatch(kernel)
    return kernel if found is None else found[1]


def take_turns(activities: Sequence[Activity]) -> list[Activity]:
    """Return them as they began, each from the end of the one before on: what is launched early waits until then."""
    turns: list[Activity] = []
    over = 0
    for each in sorted(activities, key=lambda activity: activity.start):
        turns.append(each._replace(start=min(each.end, max(each.start, over))))
        over = max(over, each.end)
    return turns


def list_events(activities: Sequence[Activity]) -> list[Event]:
    """Return one event a call of a function, from what the card did in one run of the model.

    A call launches each kernel of its function once: the n-th of every kernel belong to the n-th call. Events stand in
    the order in which calls began.
    """
    seen: Counter[str] = Counter()
    calls: dict[tuple[str, int], int] = defaultdict(int)
    for each in take_turns(activities):
        calls[name_function(each.name), seen[each.name]] += each.end - each.start
        seen[each.name] += 1
    return [(function, nanoseconds) for (function, _), nanoseconds in calls.items()]


def summarize_graph(runs: Sequence[Sequence[Activity]]) -> GraphTime | None:
    """Return what the CUDA graphs of a run take together, medians over the runs; None where no run has one."""
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
