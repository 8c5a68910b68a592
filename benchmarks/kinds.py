"""Print the distribution of a package's time: its operators by kind, beside the limits of arithmetic and memory.

python benchmarks/kinds.py PACKAGE.tar … [--threads 1] [--repeat 40]

Each package is profiled as `tvmbuild run --profile` does it. "Limit": the sum of each operator's time at the peaks
measured in that run, of float32 in registers or of memory, whichever is longer. Prints a table in Markdown for each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("attention", ("attention",)),
    ("products", ("matmul", "conv2d", "winograd")),
    ("norms and softmax", ("norm", "softmax", "mean", "variance", "sum", "max")),
    ("calls", ("virtual machine",)),
)
"""The kinds: an operator has the first kind with a word in its name; the others move data or compute single numbers."""
REST = "elementwise and moves"


def main() -> int:
    """Profile each package and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=40)
    args = parser.parse_args()
    for package in args.packages:
        print(_make_table(package, _profile(package, args.threads, args.repeat)), flush=True)
    return 0


def _profile(package: str, threads: int, repeat: int) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "profile.json")
        command = [sys.executable, "-m", "tvmbuild", "run", package, "--profile-json", str(path)]
        command += ["--threads", str(threads), "--repeat", str(repeat), "--profile"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        found: Mapping[str, Any] = json.loads(path.read_text())
    return found


def _make_table(package: str, profile: Mapping[str, Any]) -> str:
    peak, kinds = profile["peak"], defaultdict[str, list[Mapping[str, Any]]](list)
    for row in profile["operators"]:
        kinds[_find_kind(str(row["name"]))].append(row)
    machine = f"{profile['threads']} threads, {profile['machine']}"
    peaks = f"{peak['gflops']:.0f} GFLOP/s, {peak['gb_s']:.0f} GB/s"
    lines = [
        f"{package}: {profile['latency_ms']['median']:.3g} ms, {machine}, {peaks}",
        "",
        "| kind | calls | ms | GFLOP/s | limit, ms |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind, rows in sorted(kinds.items(), key=lambda pair: -sum(row["us"] for row in pair[1])):
        us, flops = (sum(row[name] or 0 for row in rows) for name in ("us", "flops"))
        limit = sum(_limit(row, peak) for row in rows)
        calls = sum(row["calls"] for row in rows)
        lines.append(f"| {kind} | {calls} | {us / 1e3:.3g} | {flops / us / 1e3:.0f} | {limit / 1e3:.3g} |")
    return "\n".join([*lines, ""])


def _limit(row: Mapping[str, Any], peak: Mapping[str, Any]) -> float:
    """Return the least µs that the operator may take."""
    return float(max((row["flops"] or 0) / peak["gflops"], (row["bytes"] or 0) / peak["gb_s"])) / 1e3


def _find_kind(name: str) -> str:
    return next((kind for kind, words in KINDS if any(word in name for word in words)), REST)


if __name__ == "__main__":
    sys.exit(main())
