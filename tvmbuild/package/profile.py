"""The time of each operator of a package, and its share of the machine's peak rates. This module needs no TVM."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from tvmbuild.package.operator_info import OperatorInfo

VM_PREFIX = "vm."
VM_FUNCTION = "vm.builtin"
VM_NAME = "virtual machine"
GRAPH_CALL = "vm.builtin.cuda_graph.run_or_capture"
"""The function that runs a CUDA graph. The host's clock sees the whole graph as one call."""

Event = tuple[str, int]
"""A call of TVM's virtual machine: the function's name, and its nanoseconds without those of the calls inside it."""


Clock = Literal["device", "host"]
"""The source of the times: the device's own clock, or the host's clock with a wait for the device around each call."""


@dataclass(frozen=True)
class OperatorRow:
    """One row of a profile: all calls of a function in one run of the model."""

    function: str
    """The function's name in the package, or `vm.builtin` for the virtual machine's own work (allocation, reshapes)."""
    name: str
    """The operator's name in reports."""
    key: str | None
    """The key of the function's Task. None for the virtual machine, or if the package does not have it."""
    calls: int
    """The number of calls in one run."""
    us: float
    """The time of all calls in one run, in microseconds: the sum of each call's median over the runs."""
    share: float
    """The row's share of the time of all rows."""
    flops: int | None
    """The number of floating-point operations of all calls in one run. None if it is unknown."""
    bytes: int | None
    """The least number of bytes that all calls in one run read and write. None if it is unknown."""
    covered: bool | None
    """True if the function's Task has a record. None if the package does not have this information."""

    @property
    def gflops(self) -> float | None:
        """Return the compute rate in GFLOP/s, or None if the number of operations or the time is unknown."""
        return None if self.flops is None or self.us <= 0 else self.flops / self.us / 1e3

    @property
    def gb_s(self) -> float | None:
        """Return the least memory rate in GB/s, or None if the number of bytes or the time is unknown."""
        return None if self.bytes is None or self.us <= 0 else self.bytes / self.us / 1e3

    def to_json(self) -> dict[str, object]:
        """Return the row as a JSON value. ``from_json`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OperatorRow:
        """Parse the output of ``to_json``. Additional keys from a later version are ignored."""
        return cls(**{each.name: value[each.name] for each in fields(cls)})


@dataclass(frozen=True)
class GraphTime:
    """The time of the CUDA graphs in one run of the model, by the card's clock. Values are medians over the runs."""

    kernels: int
    """The number of nodes in the graphs: kernels and copies."""
    sum_us: float
    """The sum of the nodes' times, in microseconds."""
    us: float
    """The sum over the graphs of the time from a graph's first node to the end of its last node, in microseconds."""


@dataclass(frozen=True)
class Profile:
    """The profile of a package: one row per function, the longest first, and the clock that measured it."""

    rows: tuple[OperatorRow, ...]
    clock: Clock
    graph: GraphTime | None = None
    """The time of the CUDA graphs. None if the package has none, or if the clock is the host's."""
    remarks: tuple[str, ...] = ()
    """The reason why the host's clock was used although devices of this kind have a clock, with the remedy."""

    def to_json(self) -> dict[str, object]:
        """Return the profile as a JSON value. ``from_json`` is the inverse."""
        graph = None if self.graph is None else asdict(self.graph)
        return {
            "rows": [row.to_json() for row in self.rows],
            "clock": self.clock,
            "graph": graph,
            "remarks": self.remarks,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Profile:
        """Parse the output of ``to_json``, also of an earlier version, which has neither ``graph`` nor ``remarks``."""
        graph = value.get("graph")
        rows = tuple(OperatorRow.from_json(row) for row in value["rows"])
        return cls(rows, value["clock"], None if graph is None else GraphTime(**graph), tuple(value.get("remarks", ())))


def is_kernel(function: str, kernels: Collection[str] | None) -> bool:
    """Return whether a call of the virtual machine is a kernel or the virtual machine's own work, not work of the host.

    ``kernels`` has the names of the package's kernels. If it is None they are unknown, and every call counts.
    """
    return kernels is None or function in kernels or function.startswith(VM_PREFIX)


def is_on_host(row: OperatorRow) -> bool:
    """Return whether a row in the profile of a GPU package is work of the CPU: a function of TVM's runtime.

    The package's own functions are all kernels: TVM refuses to build a GPU function whose loops are not bound to the
    GPU's threads.
    """
    return row.key is None and row.function != VM_FUNCTION


@dataclass(frozen=True)
class Peak:
    """The measured peak rates of a machine's CPU or GPU."""

    gflops: float
    """The peak compute rate in GFLOP/s. A fused multiply-add counts as two operations."""
    gb_s: float
    """The peak rate of reading and writing memory outside the caches, in GB/s."""
    threads: int
    """The number of CPU threads that were used. 0 for a GPU, which computes as a whole."""
    compute: str
    """A phrase that describes how ``gflops`` was measured."""
    memory: str
    """A phrase that describes how ``gb_s`` was measured."""

    def to_json(self) -> dict[str, object]:
        """Return the peak rates as a JSON value. ``from_json`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Peak:
        """Parse the output of ``to_json``. Additional keys from a later version are ignored."""
        return cls(**{each.name: value[each.name] for each in fields(cls)})


@dataclass(frozen=True)
class Bound:
    """The peak rate that limits an operator, and how close the operator comes to it."""

    by: Literal["compute", "memory"]
    """The limiting rate."""
    share: float
    """The operator's rate over the peak rate. For `memory` it exceeds 1 if caches held the data."""


def share_of_peak(row: OperatorRow, peak: Peak) -> Bound | None:
    """Return the operator's limit by the roofline model, or None if its bytes or its time are unknown.

    The limit is memory if the operator has fewer operations per byte than ``peak.gflops / peak.gb_s``, or if its
    operations are unknown.
    """
    if row.gb_s is None or row.bytes is None:
        return None
    if row.flops is None or row.gflops is None or row.flops * peak.gb_s < row.bytes * peak.gflops:
        return Bound("memory", row.gb_s / peak.gb_s)
    return Bound("compute", row.gflops / peak.gflops)


def summarize_runs(runs: Sequence[Sequence[Event]], operators: Sequence[OperatorInfo]) -> tuple[OperatorRow, ...]:
    """Return one row per function, the longest first, from the events of several runs of the same model.

    The n-th call of a function in a run is the same call site in all runs. Each call site's time is its median over the
    runs, so that a disturbance of one call in one run affects no row.
    """
    sites: dict[tuple[str, int], list[int]] = defaultdict(list)
    for run in runs:
        seen: Counter[str] = Counter()
        for function, nanoseconds in run:
            row = VM_FUNCTION if function.startswith(VM_PREFIX) else function
            sites[row, seen[row]].append(nanoseconds)
            seen[row] += 1
    times: dict[str, list[float]] = defaultdict(list)
    for (function, _), samples in sites.items():
        times[function].append(statistics.median(samples) / 1e3)
    total = sum(sum(each) for each in times.values())
    known = {info.function: info for info in operators}
    rows = [_make_row(function, each, total, known.get(function)) for function, each in times.items()]
    return tuple(sorted(rows, key=lambda row: (-row.us, row.function)))


def _make_row(function: str, times: Sequence[float], total: float, info: OperatorInfo | None) -> OperatorRow:
    us, calls = sum(times), len(times)
    share = us / total if total else 0.0
    if info is None:
        name = VM_NAME if function == VM_FUNCTION else function
        return OperatorRow(function, name, None, calls, us, share, None, None, None)
    flops = None if info.flops is None else info.flops * calls
    moved = None if info.bytes is None else info.bytes * calls
    return OperatorRow(function, info.name, info.key, calls, us, share, flops, moved, info.covered)
