"""`build/peaks.json`: what machines and their GPUs can do at the most, by threads; the roof of the roofline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tvmbuild.base.files import write_json
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.profile import Peak

FORMAT = 1
Peaks = Mapping[tuple[str, int], Peak]
"""(What computes, by `name_chip`; threads) → its peak."""
GPU_THREADS = 0
"""A GPU's peak is of all of it."""


def name_chip(machine: str, target: PackageTarget) -> str:
    """Return what a peak is of: the machine, as a benchmark has it, or its GPU, a card's by what it multiplies."""
    if not target.on_gpu:
        return machine
    return f"{machine}, {target.kind}" + (f" {target.precision}" if target.kind == "cuda" else "")


def read_peaks(path: Path) -> Peaks:
    """Return what the file holds; empty where it is absent, damaged or of another version: it can be measured again."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return {}
        peaks = [(str(row["machine"]), Peak.from_json(row)) for row in data["peaks"]]
        return {(machine, int(peak.threads)): peak for machine, peak in peaks if peak.gflops > 0 and peak.gb_s > 0}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def add_peak(path: Path, machine: str, peak: Peak) -> None:
    """Add the machine's peak, in place of an earlier one with as many threads."""
    peaks = {**read_peaks(path), (machine, peak.threads): peak}
    rows = [{"machine": name, **each.to_json()} for (name, _), each in sorted(peaks.items(), key=lambda row: row[0])]
    write_json(path, {"format": FORMAT, "peaks": rows})
