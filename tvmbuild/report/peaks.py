"""The file `build/peaks.json`: the peaks of machines and their GPUs, by threads, for the roof of the roofline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tvmbuild.base.files import write_json
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.profile import Peak

FORMAT = 1
Peaks = Mapping[tuple[str, int], Peak]
"""(The chip, by `name_chip`; threads) → its peak."""
GPU_THREADS = 0
"""The thread count of a GPU's peak, which is of the whole GPU."""


def name_chip(machine: str, target: PackageTarget) -> str:
    """Return the chip that a peak belongs to: a benchmark's machine, or its GPU, for CUDA with the precision."""
    if not target.on_gpu:
        return machine
    return f"{machine}, {target.kind}" + (f" {target.precision}" if target.kind == "cuda" else "")


def read_peaks(path: Path) -> Peaks:
    """Return the file's peaks; empty if it is absent, damaged or of another version, for they can be measured again."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return {}
        peaks = [(str(row["machine"]), Peak.from_json(row)) for row in data["peaks"]]
        return {(machine, int(peak.threads)): peak for machine, peak in peaks if peak.gflops > 0 and peak.gb_s > 0}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def add_peak(path: Path, machine: str, peak: Peak) -> None:
    """Add the machine's peak, replacing an earlier one with as many threads."""
    peaks = {**read_peaks(path), (machine, peak.threads): peak}
    rows = [{"machine": name, **each.to_json()} for (name, _), each in sorted(peaks.items(), key=lambda row: row[0])]
    write_json(path, {"format": FORMAT, "peaks": rows})
