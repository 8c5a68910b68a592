"""Measure a robot's guest beside ONNX Runtime: the first result, idle and 6 Hz CPU time, and many networks' memory.

python benchmarks/guest.py PACKAGE.tar MODEL.onnx [PACKAGE.tar MODEL.onnx …]

Each figure is of fresh processes, which take turns. The first pair is used for times, all pairs for memory. The models'
shapes must be fixed. The CPU time is the process's own, in per cent of a core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tvmbuild.package.archive import read_metadata
from tvmbuild.package.metadata import default_threads

TURNS, SECONDS, RATE = 11, 4, 6
OURS = "tvmbuild"
LOADERS = {
    OURS: """
import tvmbuild
def load(path, threads):
    session = tvmbuild.load(path, threads)
    inputs = {each.name: session.empty(each.name) for each in session.inputs}
    for value in inputs.values():
        value[...] = 0
    return lambda: session.run(inputs)
""",
    "ONNX Runtime": """
import numpy, onnxruntime
TYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(uint8)": "uint8"}
def load(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = {each.name: numpy.zeros(each.shape, TYPES[each.type]) for each in session.get_inputs()}
    return lambda: session.run(None, inputs)
""",
}
FIRST = "load(sys.argv[1], int(sys.argv[2]))(); print(0)"
BUSY = """
import time
run = load(sys.argv[1], int(sys.argv[2]))
for _ in range(20): run()
def share(rate):
    begun, used = time.monotonic(), time.process_time()
    while time.monotonic() < begun + float(sys.argv[3]):
        if rate: run()
        time.sleep(1 / rate if rate else 0.5)
    return 100 * (time.process_time() - used) / (time.monotonic() - begun)
print(json.dumps([share(0), share(float(sys.argv[4]))]))
"""
MEMORY = """
paths = sys.argv[2:]
def status():
    pairs = (line.split(":") for line in open("/proc/self/smaps_rollup") if line.count(":") == 1)
    values = {name: int(value.split()[0]) / 1000 for name, value in pairs if value.endswith("kB\\n")}
    return [values["Rss"], values["Pss"]]
runs = [load(path, int(sys.argv[1])) for path in paths]
for run in runs: run()
print(json.dumps(status()))
"""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    files = [str(path) for path in parser.parse_args().files]
    contenders = {OURS: files[::2], "ONNX Runtime": files[1::2]}
    threads = str(default_threads(read_metadata(Path(files[0])), len(os.sched_getaffinity(0))))
    table = Table("", *contenders, "ratio")
    first = {name: [measure_first(name, paths[0], threads) for _ in range(1)] for name, paths in contenders.items()}
    for _ in range(TURNS):
        for name, paths in contenders.items():
            first[name].append(measure_first(name, paths[0], threads))
    for row, index in (("first result, wall ms", 0), ("first result, CPU ms", 1)):
        add(table, row, {name: statistics.median(each[index] for each in found[1:]) for name, found in first.items()})
    busy = {name: ask(name, BUSY, paths[0], threads, str(SECONDS), str(RATE)) for name, paths in contenders.items()}
    for row, index in (("idle, % of a core", 0), (f"{RATE} Hz, % of a core", 1)):
        add(table, row, {name: found[index] for name, found in busy.items()})
    for count in sorted({1, len(files) // 2}):
        found = {name: ask(name, MEMORY, threads, *paths[:count]) for name, paths in contenders.items()}
        for index, kind in ((0, "resident"), (1, "proportional")):
            row = f"{count} network{'s' * (count > 1)}, {kind} MB"
            add(table, row, {name: values[index] for name, values in found.items()})
    Console().print(table)
    return 0


def add(table: Table, row: str, values: dict[str, float]) -> None:
    """Add a row with the ratio of the first value to the second."""
    ours, other = values.values()
    table.add_row(row, *(f"{value:.4g}" for value in values.values()), f"{ours / other:.2f}" if other else "-")


def start(name: str, program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a fresh process with the contender's loader."""
    command = [sys.executable, "-W", "ignore", "-c", f"import json, sys{LOADERS[name]}{program}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measure_first(name: str, path: str, threads: str) -> tuple[float, float]:
    """Return the wall and CPU time in ms from the start of a process to its end behind the first result."""
    begun = time.perf_counter()
    process = start(name, FIRST, path, threads)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{name} failed with {path}"
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def ask(name: str, program: str, *arguments: str) -> list[float]:
    """Run the program and return the numbers that it prints."""
    output, _ = start(name, program, *arguments).communicate(timeout=300)
    numbers: list[float] = json.loads(output)
    return numbers


if __name__ == "__main__":
    sys.exit(main())
