"""Measure how long each stage of a build takes, by rule: simplify, tune (without a search), compile.

python benchmarks/build_times.py MODEL.onnx|NETWORK … [--target x86-64-v3]

Builds each model by `tvmbuild compile`, without a step cache, and prints the seconds of its steps, their sum, and the
CPU time of the whole command, which other programs on the machine disturb less. The sum leaves out the benchmark at the
end of a build: its length is a choice.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from network_files import network_file
from rich.console import Console
from rich.table import Table

from tvmbuild.base.host_cpu import cpu_name

STAGES = ("simplify", "tune", "compile")
STEP = re.compile(r"^ok (\w+):\S+ +([\d.]+) s$", re.MULTILINE)
"""A line of a finished step: stage and seconds."""


def main() -> int:
    """Build the models one after the other and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=network_file, nargs="+")
    parser.add_argument("--target", default="x86-64-v3")
    args = parser.parse_args()
    title = f"{args.target} on {cpu_name()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}"
    table = Table("model", *(f"{stage} s" for stage in STAGES), "sum s", "CPU s", "load", title=title)
    for model in args.models:
        before = os.times()
        seconds = measure(model, args.target)
        after = os.times()
        if seconds is None:
            return 1
        shown = [f"{seconds[stage]:.1f}" for stage in STAGES]
        total = sum(seconds[stage] for stage in STAGES)
        cpu = after.children_user - before.children_user + after.children_system - before.children_system
        table.add_row(model.stem, *shown, f"{total:.1f}", f"{cpu:.1f}", f"{os.getloadavg()[0]:.1f}")
    Console().print(table)
    return 0


def measure(model: Path, target: str) -> dict[str, float] | None:
    """Build the model in an empty folder; return its stages and their seconds, or None if a stage failed."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {key: value for key, value in os.environ.items() if key != "TVMBUILD_CACHE"}
        environment["XDG_CACHE_HOME"] = folder  # earlier builds of the model are there
        command = [sys.executable, "-m", "tvmbuild", "compile", str(model.absolute()), "--target", target]
        built = subprocess.run(
            [*command, "-o", str(Path(folder) / "package.tar")],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    seconds = {stage: float(value) for stage, value in STEP.findall(built.stdout + built.stderr)}
    if built.returncode or not set(STAGES) <= set(seconds):
        print(built.stdout + built.stderr, file=sys.stderr)
        return None
    return seconds


if __name__ == "__main__":
    sys.exit(main())
