"""Time the lookup of a cell's records in a large folder: `python benchmarks/records_lookup.py [FILES] [TASKS]`.

The folder is temporary and has copies of the shipped record files under other keys, 10,000 by default. Each time a
fresh process does the planning of one cell of 34 Tasks: read its record files, leave out those in quarantine, elect.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tvmbuild.base.attributes import freeze_attributes
from tvmbuild.records.folders import list_record_files
from tvmbuild.records.selection import elect, read_applicable_files
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.records.task_file import ResolvedTarget, TaskFile

SHIPPED = Path(__file__).resolve().parent.parent / "records" / "x86-64-v3"
FILES, TASKS, LIMIT_S, RUNS = 10_000, 34, 0.5, 5


def main() -> int:
    """Print the numbers; return 1 if a lookup takes too long."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    tasks = int(sys.argv[2]) if len(sys.argv) > 2 else TASKS
    shipped = [file for path in list_record_files(SHIPPED) if (file := read_task_file(path)) is not None]
    with tempfile.TemporaryDirectory(prefix="tvmbuild-lookup-") as temporary:
        folder = Path(temporary, "records", "pc")
        keys = fill(folder, shipped, files)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{files} record files, {size / 1e6:.0f} MB: copies of {len(shipped)} shipped ones")
        chosen = [keys[number * files // tasks] for number in range(tasks)]
        seconds = [look_up_in_a_process(folder, chosen, shipped[0].target) for _ in range(RUNS)]
    median = statistics.median(seconds)
    print(
        f"lookup of {tasks} Tasks: median {median:.3f} s, {min(seconds):.3f} to {max(seconds):.3f} ({RUNS} processes)"
    )
    print(f"limit {LIMIT_S} s: {'kept' if median < LIMIT_S else 'exceeded'}")
    return 0 if median < LIMIT_S else 1


ANY = "0" * 16
"""The placeholder of a key."""


def fill(folder: Path, shipped: list[TaskFile], files: int) -> list[str]:
    """Write that many record files; return their keys."""
    keys = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in range(1, files + 1)]
    texts = []
    for file in shipped:
        path = record_path(folder, file.key)
        write_task_file(path, replace(file, key=ANY))
        texts.append(path.read_text(encoding="utf-8"))
        path.unlink()
    for number, key in enumerate(keys):
        record_path(folder, key).write_text(texts[number % len(texts)].replace(ANY, key), encoding="utf-8")
    return keys


def look_up_in_a_process(folder: Path, keys: list[str], target: str) -> float:
    """Return the seconds of a lookup in a new process without any cache."""
    command = [sys.executable, __file__, "--look-up", str(folder), target, *keys]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def look_up(folder: str, target: str, *keys: str) -> int:
    """Print the seconds of finding the winners."""
    value = json.loads(target)
    resolved = ResolvedTarget(value["kind"], freeze_attributes(value["attributes"]), freeze_attributes(value["host"]))
    start = time.perf_counter()
    files = read_applicable_files(Path(folder), keys, resolved)
    winners = [elect(file, None) for file in files.values()]
    seconds = time.perf_counter() - start
    if len(winners) != len(keys) or None in winners:
        raise AssertionError("a record was not found")
    print(seconds)
    return 0


if __name__ == "__main__":
    sys.exit(look_up(*sys.argv[2:]) if sys.argv[1:2] == ["--look-up"] else main())
