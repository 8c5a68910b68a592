"""Remarks on slow packages that leave features of this machine's CPU unused, because their target is for any PC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvmbuild.base.cpu_features import X86_FEATURES, X86_LEVELS
from tvmbuild.base.host_cpu import cpu_flags, cpu_name
from tvmbuild.base.wording import name_some
from tvmbuild.benchmarking.estimates import judge
from tvmbuild.report.cells import CellReport
from tvmbuild.report.latency import NAMES

_ADAPTS = frozenset({"onnxruntime", "openvino"})
"""The baselines that choose their code for the CPU on which they run."""


def list_unused(cells: Sequence[CellReport]) -> Iterator[str]:
    """Yield one line for each target whose cells were slower here than a baseline that may use more of the CPU.

    The target's code lacks instruction sets of the highest level of x86-64 that this CPU has.
    """
    here, flags = cpu_name(), cpu_flags()
    levels = [level for level, needed in X86_LEVELS.items() if needed <= flags]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells if levels else ():
        if cell.status != "ok" or cell.result is None or cell.rival is None or cell.built_for is None:
            continue
        used, known = cell.built_for.flags, X86_LEVELS[levels[-1]].intersection(X86_FEATURES.values())
        less = used is not None and not known.issubset(used) and cell.result.machine.cpu == here
        if less and cell.rival.name in _ADAPTS and judge(cell.rival.ratio) == "slower":
            mcpu = str(cell.built_for.attributes.get("mcpu", "its CPU"))
            groups.setdefault((cell.target, mcpu, cell.rival.name), []).append(cell.model)
    for (target, mcpu, rival), models in groups.items():
        told = f"{NAMES.get(rival, rival)} used what this CPU has beyond {mcpu}"
        yield f"{target} ({name_some(models)}): {told}; a target with `mcpu: {levels[-1]}` may use it, too"
