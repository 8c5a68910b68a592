"""Compare TVM's CUDA runtime with tvmbuild's own on a card, in processes that take turns.

python benchmarks/cuda_runtimes.py PACKAGE.tar [PACKAGE.tar …]

Both must be there: TVM_LIBRARY_PATH and LD_LIBRARY_PATH name the folders of TVM's and of `libcudart.so.13`. Prints the
medians and the ratio, own over TVM's, of a load, of the time from the load's begin to the first result, of a call from
host to host, of a call with resident inputs, and of the card's memory that the process takes after the first result.
NVML tells the memory of the first card, which no other process may use meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROUNDS = 5
FIGURES = ("load_ms", "first_ms", "host_us", "resident_us", "card_mib")
CHILD = """
import ctypes, json, statistics, sys, time
import numpy as np
from tvmbuild.package.inputs import make_inputs
from tvmbuild.package.runtime.session import Session
def take(function):
    for _ in range(30): function()
    samples = []
    for _ in range(15):
        begun = time.perf_counter()
        for _ in range(20): function()
        samples.append((time.perf_counter() - begun) / 20 * 1e6)
    return statistics.median(samples)
nvml, card, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
def read_used():
    if nvml.nvmlDeviceGetMemoryInfo(card, memory): sys.exit("NVML does not tell the card's memory")
    return memory[2] / 2**20  # total, free, used
if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)): sys.exit("NVML finds no card")
used = read_used()
begun = time.perf_counter()
session = Session(sys.argv[1])
load = time.perf_counter() - begun
inputs = make_inputs(session.inputs, "random")
called = time.perf_counter()
outputs = session.run(inputs)
first = load + time.perf_counter() - called
used = read_used() - used
sums = {name: float(np.sum(value, dtype=np.float64)) for name, value in outputs.items()}
print(json.dumps({"load_ms": load * 1e3, "first_ms": first * 1e3, "host_us": take(lambda: session.run(inputs)),
                  "resident_us": take(session.bind(inputs)), "card_mib": used, "sums": sums}))
"""


def main() -> int:
    """Measure and print; return 1 if the results of the two differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=Path, metavar="PACKAGE.tar")
    table, is_same = Table("package", *FIGURES, title="TVM's, own, own / TVM's"), True
    for package in parser.parse_args().packages:
        runs: dict[str, list[dict[str, float]]] = {"tvm": [], "own": []}
        for number in range(ROUNDS):
            for choice in sorted(runs, reverse=number % 2 == 0):
                runs[choice].append(_run(package, choice))
        is_same &= len({str(each["sums"]) for found in runs.values() for each in found}) == 1
        table.add_row(package.name, *(_compare(runs, name) for name in FIGURES))
    Console().print(table)
    print("the results are the same" if is_same else "the results differ")
    return 0 if is_same else 1


def _run(package: Path, choice: str) -> dict[str, float]:
    """Return the figures of a process with one of the runtimes."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(package)],
        env={**os.environ, "TVMBUILD_CUDA": choice},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{package} with TVMBUILD_CUDA={choice}: {done.stderr.strip().splitlines()[-1]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _compare(runs: dict[str, list[dict[str, float]]], name: str) -> str:
    tvm, own = (statistics.median(each[name] for each in runs[choice]) for choice in ("tvm", "own"))
    return f"{tvm:.0f}, {own:.0f}, {own / tvm:.2f}"


if __name__ == "__main__":
    sys.exit(main())
