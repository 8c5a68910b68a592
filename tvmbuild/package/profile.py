"""The time of each operator of a package, and its share of the machine's limits: values, free of TVM."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from tvmbuild.package.metadata import OperatorInfo

VM_PREFIX = "vm."
VM_FUNCTION = "vm.builtin"
VM_NAME = "virtual machine"
GRAPH_CALL = "vm.builtin.cuda_graph.run_or_capture"
"""The call of a CUDA graph, whose contents the host sees as one event."""

Event = tuple[str, int]
"""A call of the virtual machine: the function's name, and nanoseconds without the calls inside it."""


Clock = Literal["device", "host"]
"""The source of the times: the device's clock for its kernels, or the host's, which waits for the device each time."""


@dataclass(frozen=True)
class OperatorRow:
    """One function in one run of the model, all its calls together."""

    function: str
    """The name in the package; `vm.builtin` for the virtual machine's own work (allocation, reshapes)."""
    name: str
    """The name for people."""
    key: str | None
    """Task key. None for the virtual machine, or if the package does not name it."""
    calls: int
    us: float
    """Microseconds: the sum over the call sites of the median over the runs."""
    share: float
    """The share of the sum of all rows."""
    flops: int | None
    bytes: int | None
    """The least number of bytes read and written."""
    covered: bool | None
    """Whether it has a record. None: the package does not tell."""

    @property
    def gflops(self) -> float | None:
        """Return GFLOP/s, or None if the number of operations is not known."""
        return None if self.flops is None or self.us <= 0 else self.flops / self.us / 1e3

    @property
    def gb_s(self) -> float | None:
        """Return the least rate of moved data, in GB/s."""
        return None if self.bytes is None or self.us <= 0 else self.bytes / self.us / 1e3

    def to_json(self) -> dict[str, object]:
        """Return the JSON value. ``from_json`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OperatorRow:
        """Read the value of ``to_json``. Keys of a later version are ignored."""
        return cls(**{each.name: value[each.name] for each in fields(cls)})


@dataclass(frozen=True)
class GraphTime:
    """The total time of the CUDA graphs of one run, by the card's clock: medians over the runs."""

    kernels: int
    """The number of nodes: kernels, and copies."""
    sum_us: float
    """Microseconds of the nodes themselves."""
    us: float
    """Microseconds from the begin of the first node to the end of the last one."""


@dataclass(frozen=True)
class Profile:
    """One row a function, the longest first, and the clock."""

    rows: tuple[OperatorRow, ...]
    clock: Clock
    graph: GraphTime | None = None
    """None: the package has no CUDA graph, or the host's clock cannot look inside."""
    remarks: tuple[str, ...] = ()
    """The reason why the host's clock was used although the device's is available, and the remedy."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON value. ``from_json`` is the inverse."""
        graph = None if self.graph is None else asdict(self.graph)
        return {
            "rows": [row.to_json() for row in self.rows],
            "clock": self.clock,
            "graph": graph,
            "remarks": self.remarks,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Profile:
        """Read the value of ``to_json``. An earlier version, on a board, has neither graph nor remarks."""
        graph = value.get("graph")
        rows = tuple(OperatorRow.from_json(row) for row in value["rows"])
        return cls(rows, value["clock"], None if graph is None else GraphTime(**graph), tuple(value.get("remarks", ())))


def is_kernel(function: str, kernels: Collection[str] | None) -> bool:
    """Return whether a call of the virtual machine is not work of the host. ``kernels`` None: they are not known."""
    return kernels is None or function in kernels or function.startswith(VM_PREFIX)


def is_on_host(row: OperatorRow) -> bool:
    """Return whether the row of a GPU package is work of the CPU: a function of TVM's runtime, not of the package.

    The package's own functions are all kernels: TVM refuses to build a function for a GPU that is not bound to its
    threads.
    """
    return row.key is None and row.function != VM_FUNCTION


@dataclass(frozen=True)
class Peak:
    """The measured peak rates of the machine or its GPU."""

    gflops: float
    """The peak rate of fp32 multiplications and additions. A fused one counts as two."""
    gb_s: float
    """The peak rate to and from memory, beyond the caches."""
    threads: int
    """The number of the CPU's threads. 0: a GPU, which computes as a whole."""
    compute: str
    """The measurement of ``gflops``, one phrase."""
    memory: str
    """The measurement of ``gb_s``."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON value. ``from_json`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Peak:
        """Read the value of ``to_json``. Keys of a later version are ignored."""
        return cls(**{each.name: value[each.name] for each in fields(cls)})


@dataclass(frozen=True)
class Bound:
    """The limit that an operator meets first, and the used share of it. `memory` above 1: caches served it."""

    by: Literal["compute", "memory"]
    share: float


def share_of_peak(row: OperatorRow, peak: Peak) -> Bound | None:
    """Return the limit by the roofline model: memory for fewer operations a byte than the machine's peaks allow."""
    if row.gb_s is None or row.bytes is None:
        return None
    if row.flops is None or row.gflops is None or row.flops * peak.gb_s < row.bytes * peak.gflops:
        return Bound("memory", row.gb_s / peak.gb_s)
    return Bound("compute", row.gflops / peak.gflops)


def summarize_runs(runs: Sequence[Sequence[Event]], operators: Sequence[OperatorInfo]) -> tuple[OperatorRow, ...]:
    """Return one row a function, the longest first, from the events of several runs of the same model.

    A call site is the n-th call of a function in a run. Each call site takes its own median over the runs, so that a
    disturbance of one call in one run affects no row.
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
