"""Compare TVM's CUDA runtime with tvmbuild's own on a card: two processes for each package, timed in turns.

python benchmarks/cuda_runtimes.py PACKAGE.tar [PACKAGE.tar …] [--starts 5] [--turns 3]

Both must be there: TVM_LIBRARY_PATH and LD_LIBRARY_PATH name the folders of TVM's and of `libcudart.so.13`. Prints the
medians and the ratio, own over TVM's, of a load, of the time from the load's begin to the first result, of a call from
host to host, of a call with resident inputs, and of the card's memory that the process takes after the first result;
then the ratios' geometric means of each precision and batch, the first dimension of a package's first input.
NVML tells the memory of the first card, which no other process may use meanwhile.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.package.archive import read_metadata

CHOICES = ("tvm", "own")
FIGURES = ("load_ms", "first_ms", "host_us", "resident_us", "card_mib")
CHILD = """
import json, statistics, sys, time
import numpy as np
from tvmbuild.package.inputs import make_inputs
from tvmbuild.package.runtime.session import Session
def take(function):
    function()
    samples, end = [], time.perf_counter() + 0.1
    while len(samples) < 3 or time.perf_counter() < end:
        begun = time.perf_counter()
        for _ in range(5): function()
        samples.append((time.perf_counter() - begun) / 5 * 1e6)
    return statistics.median(samples)
begun = time.perf_counter()
session = Session(sys.argv[1])
load = time.perf_counter() - begun
inputs = make_inputs(session.inputs, "random")
called = time.perf_counter()
outputs = session.run(inputs)
first = load + time.perf_counter() - called
sums = {name: float(np.sum(value, dtype=np.float64)) for name, value in outputs.items()}
print(json.dumps({"load_ms": load * 1e3, "first_ms": first * 1e3, "sums": sums}), flush=True)
resident = None  # only after the other process has told its memory, because this takes some
for _ in sys.stdin:
    resident = resident or session.bind(inputs)
    print(json.dumps({"host_us": take(lambda: session.run(inputs)), "resident_us": take(resident)}), flush=True)
"""
Figures = dict[str, list[float]]


def main() -> int:
    """Measure and print; return 1 if the results of the two differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=Path, metavar="PACKAGE.tar")
    parser.add_argument("--starts", type=int, default=5, help="of each process")
    parser.add_argument("--turns", type=int, default=3, help="of each process after its start")
    args = parser.parse_args()
    read_used, is_same = open_nvml(), True
    groups: dict[tuple[str, int], list[list[float]]] = defaultdict(list)
    print(f"| package: TVM's, own, own / TVM's | {' | '.join(FIGURES)} |\n{'|---' * (len(FIGURES) + 1)}|")
    for package in args.packages:
        taken: dict[str, Figures] = {choice: defaultdict(list) for choice in CHOICES}
        sums = {measure_once(package, taken, (number, args.turns), read_used) for number in range(args.starts)}
        pairs = [[statistics.median(taken[choice][name]) for choice in CHOICES] for name in FIGURES]
        ratios = [own / tvm for tvm, own in pairs]
        told = [f"{tvm:.0f}, {own:.0f}, {own / tvm:.2f}" for tvm, own in pairs]
        same = len(sums) == 1 and len(set(*sums)) == 1
        print(f"| {package.stem}{'' if same else ', whose results differ'} | {' | '.join(told)} |", flush=True)
        info = read_metadata(package)
        groups[info.target.precision, info.inputs[0].shape[0]].append(ratios)
        is_same &= same
    for (precision, batch), rows in sorted(groups.items()):
        means = " | ".join(f"{geometric_mean(list(column)):.2f}" for column in zip(*rows, strict=True))
        print(f"| mean of {len(rows)}, {precision}, batch {batch} | {means} |")
    print("the results are the same" if is_same else "results differ")
    return 0 if is_same else 1


def open_nvml() -> Callable[[], float]:
    """Return a function that returns the used memory of the first card in MiB."""
    nvml, card, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)):
        sys.exit("NVML finds no card")

    def read_used() -> float:
        if nvml.nvmlDeviceGetMemoryInfo(card, memory):
            sys.exit("NVML does not tell the card's memory")
        return memory[2] / 2**20  # total, free, used

    return read_used


def measure_once(
    package: Path, taken: dict[str, Figures], numbers: tuple[int, int], read_used: Callable[[], float]
) -> tuple[str, ...]:
    """Start both processes one after the other, add the figures of their turns, and return the sums of both outputs.

    ``numbers`` are the number of this start, which decides the order, and how many turns follow.
    """
    start, turns = numbers
    with ExitStack() as stack:
        processes: dict[str, subprocess.Popen[str]] = {}
        sums = {}
        for choice in CHOICES[:: 1 if start % 2 == 0 else -1]:
            used = read_used()
            processes[choice] = _start(package, choice)
            stack.callback(_end, processes[choice])
            told = _read(processes[choice], package, choice)
            sums[choice] = str(told.pop("sums"))
            _add(taken[choice], {**told, "card_mib": read_used() - used})
        for turn in range(turns):
            for choice in CHOICES[:: 1 if turn % 2 == 0 else -1]:
                _ask(processes[choice])
                _add(taken[choice], _read(processes[choice], package, choice))
    return tuple(sums[choice] for choice in CHOICES)


def _start(package: Path, choice: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(package)]
    environment = {**os.environ, "TVMBUILD_CUDA": choice}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _ask(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _read(process: subprocess.Popen[str], package: Path, choice: str) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        _, said = process.communicate()
        sys.exit(f"{package} with TVMBUILD_CUDA={choice}: {(said.strip().splitlines() or ['ended'])[-1]}")
    figures: dict[str, Any] = json.loads(line)
    return figures


def _add(taken: Figures, figures: dict[str, float]) -> None:
    for name, value in figures.items():
        taken[name].append(value)


if __name__ == "__main__":
    sys.exit(main())
