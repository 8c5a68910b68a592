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
"""(name of the chip from `name_chip`, number of threads) → peak rates of the chip."""
GPU_THREADS = 0
"""The thread count in the key of a GPU's peak, which is that of the whole GPU."""


def name_chip(machine: str, target: PackageTarget) -> str:
    """Return the name of the chip that a peak belongs to.

    It is the benchmark's machine or, for code that runs on a GPU, that machine's GPU (for CUDA with the precision).
    """
    if not target.on_gpu:
        return machine
    return f"{machine}, {target.kind}" + (f" {target.precision}" if target.kind == "cuda" else "")


def read_peaks(path: Path) -> Peaks:
    """Return the peaks in the file. They are empty if it is absent, damaged or of another version.

    Peaks can be measured again.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return {}
        peaks = [(str(row["machine"]), Peak.from_json(row)) for row in data["peaks"]]
        return {(machine, int(peak.threads)): peak for machine, peak in peaks if peak.gflops > 0 and peak.gb_s > 0}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def add_peak(path: Path, machine: str, peak: Peak) -> None:
    """Add the peak of the chip ``machine`` to the file, in place of an earlier one with as many threads."""
    peaks = {**read_peaks(path), (machine, peak.threads): peak}
    rows = [{"machine": name, **each.to_json()} for (name, _), each in sorted(peaks.items(), key=lambda row: row[0])]
    write_json(path, {"format": FORMAT, "peaks": rows})
