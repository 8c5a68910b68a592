"""Measure a robot's guest beside ONNX Runtime: the first result, idle and 6 Hz CPU time, and many networks' memory.

python benchmarks/guest.py PACKAGE.tar MODEL.onnx [PACKAGE.tar MODEL.onnx …]

Each figure is of fresh processes, which take turns. The row of C++ is the same package in a program without Python,
beside ONNX Runtime in Python: its wheel has no library for C++. The first pair is used for times, all pairs for memory.
The models' shapes must be fixed. The CPU time is the process's own, in per cent of a core.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

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
LOOP = """
import json, os, sys, time
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
except PermissionError:
    print("SCHED_FIFO is not allowed here: the loop is an ordinary process", file=sys.stderr)
delays, period = [], 1_000_000
due = time.monotonic_ns() + period
end = due + int(float(sys.argv[1]) * 1e9)
while due < end:
    time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
    now = time.monotonic_ns()
    delays.append((now - due) / 1e3)
    due = max(due + period, now - now % period)
delays.sort()
print(json.dumps([delays[len(delays) // 2], delays[int(len(delays) * 0.99)], delays[-1]]))
"""
"""A control loop of 1 kHz, which measures how late it wakes, as cyclictest does. It has SCHED_FIFO if it may."""
BACK_TO_BACK = """
import time, os
os.nice(5)
runs = [load(path, int(sys.argv[1])) for path in sys.argv[2:]]
for run in runs: run()
print("ready", flush=True)
while True:
    for run in runs: run()
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
    with TemporaryDirectory() as folder:
        add_first(table, contenders, threads, build_program(Path(folder)))
    busy = {name: ask(name, BUSY, paths[0], threads, str(SECONDS), str(RATE)) for name, paths in contenders.items()}
    for row, index in (("idle, % of a core", 0), (f"{RATE} Hz, % of a core", 1)):
        add(table, row, {name: found[index] for name, found in busy.items()})
    add_loop(table, contenders, threads)
    for count in sorted({1, len(files) // 2}):
        found = {name: ask(name, MEMORY, threads, *paths[:count]) for name, paths in contenders.items()}
        for index, kind in ((0, "resident"), (1, "proportional")):
            row = f"{count} network{'s' * (count > 1)}, {kind} MB"
            add(table, row, {name: values[index] for name, values in found.items()})
    Console().print(table)
    return 0


def add_first(table: Table, contenders: dict[str, list[str]], threads: str, program: Path) -> None:
    """Add the rows of the first result, in Python and in C++."""
    commands = {name: [*command(name, FIRST), paths[0], threads] for name, paths in contenders.items()}
    ours, other = commands
    commands["C++"] = [str(program), contenders[OURS][0], threads]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(TURNS + 1):
        for name, words in commands.items():
            found[name].append(measure_first(words))
    for kind, index in (("wall", 0), ("CPU", 1)):
        medians = {name: statistics.median(each[index] for each in times[1:]) for name, times in found.items()}
        for name, who in ((ours, "Python"), ("C++", "C++")):
            add(table, f"first result in {who}, {kind} ms", {ours: medians[name], other: medians[other]})


def add_loop(table: Table, contenders: dict[str, list[str]], threads: str) -> None:
    """Add the delays of a 1 kHz loop beside one and two networks that run back to back with nice 5."""
    alone = measure_loop([])
    table.add_row("1 kHz loop alone, p99 and most us late", *[f"{alone[1]:.0f}, {alone[2]:.0f}"] * 2, "-")
    for count in sorted({1, min(2, len(next(iter(contenders.values()))))}):
        found: dict[str, list[list[float]]] = {name: [] for name in contenders}
        for _ in range(3):
            for name, paths in contenders.items():
                found[name].append(measure_loop([*command(name, BACK_TO_BACK), threads, *paths[:count]]))
        for place, kind in ((1, "p99"), (2, "most")):
            values = {name: statistics.median(each[place] for each in times) for name, times in found.items()}
            add(table, f"1 kHz loop beside {count} network{'s' * (count > 1)}, {kind} us late", values)


def measure_loop(beside: list[str]) -> list[float]:
    """Return the median, 99th percentile and maximum delay of a 1 kHz loop in us while another process runs."""
    process = subprocess.Popen(beside, stdout=subprocess.PIPE, text=True) if beside else None
    try:
        if process and process.stdout:
            assert process.stdout.readline() == "ready\n"
        output = subprocess.check_output([sys.executable, "-c", LOOP, str(SECONDS)], text=True)
    finally:
        if process:
            process.kill()
            process.wait()
    numbers: list[float] = json.loads(output)
    return numbers


def build_program(folder: Path) -> Path:
    """Compile first_result.cpp with tvmbuild's C++ library and return the program."""
    tvmbuild = [sys.executable, "-m", "tvmbuild", "config"]
    flags, libraries, sources = (
        shlex.split(subprocess.check_output([*tvmbuild, word], text=True))
        for word in ("--cflags", "--libs", "--cmake-dir")
    )
    files = [Path(__file__).with_name("first_result.cpp"), Path(sources[0], "tvmbuild.cpp")]
    compiler = [sys.executable, "-m", "ziglang", "c++", "-O2"]
    program = folder / "first_result"
    subprocess.run([*compiler, *flags, *files, "-o", program, *libraries], check=True)
    return program


def add(table: Table, row: str, values: dict[str, float]) -> None:
    """Add a row with the ratio of the first value to the second."""
    ours, other = values.values()
    table.add_row(row, *(f"{value:.4g}" for value in values.values()), f"{ours / other:.2f}" if other else "-")


def command(name: str, program: str) -> list[str]:
    """Return the command of a Python program behind the contender's loader."""
    return [sys.executable, "-W", "ignore", "-c", f"import json, sys{LOADERS[name]}{program}"]


def measure_first(words: list[str]) -> tuple[float, float]:
    """Return the wall and CPU time in ms from the start of a process to its end after the first result."""
    begun = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{words} failed"
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def ask(name: str, program: str, *arguments: str) -> list[float]:
    """Run the program and return the numbers that it prints."""
    words = [*command(name, program), *arguments]
    output = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=300, check=True).stdout
    numbers: list[float] = json.loads(output)
    return numbers


if __name__ == "__main__":
    sys.exit(main())
