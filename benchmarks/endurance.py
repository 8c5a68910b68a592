"""Run a package many times, and compare the memory, handles and threads of the process at the beginning and the end.

python benchmarks/endurance.py PACKAGE.tar [RUNS]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import tvmbuild
from tvmbuild.package.inputs import make_inputs

RUNS, WARM_UP = 1_000_000, 1000


def main() -> int:
    """Run, print a line for each tenth of the runs, and return 1 if memory, handles or threads grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path)
    parser.add_argument("runs", nargs="?", type=int, default=RUNS)
    arguments = parser.parse_args()
    with tvmbuild.load(arguments.package) as session:
        inputs = make_inputs(session.inputs, "random")
        for _ in range(WARM_UP):
            session.run(inputs)
        first = last = measure()
        begun = time.monotonic()
        for tenth in range(1, 11):
            for _ in range(arguments.runs // 10):
                session.run(inputs)
            last = measure()
            print(
                f"{tenth * arguments.runs // 10:>9} runs, {time.monotonic() - begun:6.0f} s: {describe(last)}",
                flush=True,
            )
    print(f"before {describe(first)}")
    return int(last[0] > first[0] + 1000 or last[1:] != first[1:])


def measure() -> tuple[int, int, int]:
    """Return the resident memory in kB, and the numbers of open files and threads."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    resident = int(status.split("VmRSS:")[1].split()[0])
    files, threads = (len(list(Path("/proc/self", each).iterdir())) for each in ("fd", "task"))
    return resident, files, threads


def describe(found: tuple[int, int, int]) -> str:
    """Return the numbers of `measure` in words."""
    return f"{found[0]} kB resident, {found[1]} open files, {found[2]} threads"


if __name__ == "__main__":
    sys.exit(main())
