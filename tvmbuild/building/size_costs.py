"""The expected time of a call of each size, from which a package chooses the parts of a batch."""

from __future__ import annotations

from typing import NamedTuple

from tvmbuild.package.metadata import PackageInfo


class _Speed(NamedTuple):
    """The speed of a usual machine: only ratios of the times of a package's sizes count."""

    flops_per_ns: float
    """Floating-point operations a nanosecond, of a core or a GPU."""
    near_per_ns: float
    """Bytes a nanosecond from a cache."""
    far_per_ns: float
    """Bytes a nanosecond from memory."""
    near: int
    """The bytes that stay in a cache from call to call."""
    call_ns: int
    """The time of a call without operators: of Python's session some µs, of C++'s about one."""
    operator_ns: int
    """The time of an operator without work."""


_CORE = _Speed(flops_per_ns=50, near_per_ns=50, far_per_ns=8, near=8 << 20, call_ns=4000, operator_ns=100)
_GPU = _Speed(flops_per_ns=5000, near_per_ns=1000, far_per_ns=300, near=16 << 20, call_ns=20_000, operator_ns=4000)


def expect_ns(info: PackageInfo) -> int:
    """Return the expected time of a call of a package of one size, in ns: at least 1.

    An operator takes the longer of the times of its operations and of its bytes, as in a roofline.
    """
    speed, cores = (_GPU, 1) if info.target.on_gpu else (_CORE, _count_cores(info))
    operators = info.operators or ()
    moved = sum(each.bytes or 0 for each in operators)
    bytes_per_ns = (speed.near_per_ns if moved <= speed.near else speed.far_per_ns) * cores
    total = float(speed.call_ns)
    for each in operators:
        computing = (each.flops or 0) / (speed.flops_per_ns * cores)
        total += speed.operator_ns + max(computing, (each.bytes or 0) / bytes_per_ns)
    return max(1, round(total))


def _count_cores(info: PackageInfo) -> int:
    value = info.target.cpu.get("num-cores", 1)
    return value if isinstance(value, int) and value > 0 else 1
