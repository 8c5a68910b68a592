"""Tunes and times the cells of a tvmbuild bundle; needs Python 3.11 or later, NumPy, a C compiler, and the device.

    python3 run.py [STEP …] [--minutes 60] [--jobs 4] [--no-benchmark]

Writes results.tar.gz as it goes: records, results and logs. What is measured is kept when the time is up or the
run is interrupted. At home: `tar xf results.tar.gz && tvmbuild records import results/records`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT, SITE, RESULTS = HERE / "project", HERE / "site", HERE / "results.tar.gz"
KEPT = ("records", "build/cells/*/tune.json", "build/cells/*/result.json", "build/report.md", "build/logs")
GRACE_S = 30
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in Debian 12's Python


def main() -> int:
    """Tune and time the cells, save the results, and return the exit status of the last run of tvmbuild."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", metavar="STEP", nargs="*", default=["tune:*"], help="default: tune:*")
    parser.add_argument("--minutes", type=float, default=60.0, help="of tuning; the benchmark comes after it")
    parser.add_argument("--jobs", type=int, default=max(1, min(4, (os.cpu_count() or 1) // 4)), help="cells at once")
    parser.add_argument("--no-benchmark", action="store_true")
    args = parser.parse_args()
    for hangup in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(hangup) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(hangup, signal.default_int_handler)
    unpack()
    threading.Thread(target=save_often, daemon=True).start()
    status = tvmbuild(["-n", str(args.jobs), "tune=missing", *args.steps], args.minutes * 60)
    if not args.no_benchmark:
        status = tvmbuild(["benchmark", "tune=never"], None)
    save()
    print(f"{RESULTS} has the records; at home: tar xf results.tar.gz && tvmbuild records import results/records")
    return status


def unpack() -> None:
    """Unpack the Python packages beside this file, unless an earlier run did."""
    done = SITE / ".unpacked"
    if done.exists():
        return
    print("unpacking", flush=True)
    with tarfile.open(HERE / "site.tar.xz") as archive:
        archive.extractall(HERE, **FILTER)  # noqa: S202 - our own
    done.touch()


def tvmbuild(arguments: list[str], seconds: float | None) -> int:
    """Run tvmbuild in the project and return its exit status.

    After ``seconds``, if not None, it is interrupted as by Ctrl-C, which loses nothing.
    """
    environment = {**os.environ, "PYTHONPATH": str(SITE), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "tvmbuild", *arguments]
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # `nohup … &` in a script ignores it, for children too
    process = subprocess.Popen(command, cwd=PROJECT, env=environment, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print("the time is up", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    os.killpg(process.pid, signal.SIGINT)  # its workers too, as a terminal does
    try:
        return process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def save_often() -> None:
    """Write the results every 30 seconds, forever, because the machine may be lost at any time."""
    while True:
        time.sleep(30)
        save()


def save() -> None:
    """Write the results to RESULTS. A reader never sees half of them."""
    made = HERE / f".results.{threading.get_ident()}.tmp"
    with tarfile.open(made, "w:gz", compresslevel=6) as archive:
        for pattern in KEPT:
            for path in sorted(PROJECT.glob(pattern)):
                archive.add(path, f"results/{path.relative_to(PROJECT).as_posix()}")
    made.replace(RESULTS)


if __name__ == "__main__":
    sys.exit(main())
