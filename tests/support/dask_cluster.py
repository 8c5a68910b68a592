"""A Dask scheduler and workers of `tvmbuild worker`, each its own process, on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from doit_project import QUICK_STAGES, Ran
from other_processes import find_below

from tvmbuild.compiler.bugs import RAISE_BUGS

START_S = 90.0
STEP = "tvmbuild.stages"


@dataclass
class DaskCluster:
    """The running processes; ``folder`` has the log of each."""

    folder: Path
    quick: bool = False
    """True if the workers' steps compute nothing: tests/support/quick."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return str(json.loads((self.folder / "scheduler.json").read_text())["address"])

    def start_scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        self._start("distributed.cli.dask_scheduler", *options, "--scheduler-file", str(file))
        wait_for(lambda: file.exists() and file.read_text().endswith("}"))

    def start_worker(self, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start one and wait until it works."""
        log = self.folder / f"{len(self.processes)}.log"
        process = self._start("tvmbuild", "worker", self.address, *options, **environment)
        wait_for(lambda: process.poll() is not None or "Registered to" in log.read_text())
        assert process.poll() is None, log.read_text()
        return process

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()

    def _start(self, module: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700, exist_ok=True)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("TVMBUILD_") or name == RAISE_BUGS
        }
        # Long enough to be seen, and killed.
        kept |= {"PYTHONPATH": str(QUICK_STAGES), "QUICK_STAGE_SECONDS": "0.7"} if self.quick else {}
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self.folder,
                env=kept | {"XDG_RUNTIME_DIR": str(runtime)} | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process


@contextlib.contextmanager
def run_cluster(folder: Path, workers: int, quick: bool = False) -> Iterator[DaskCluster]:
    """Run a scheduler and ``workers`` workers."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskCluster(folder, quick)
    try:
        cluster.start_scheduler()
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        cluster.stop()


def list_workers(ran: Ran) -> dict[str, str]:
    """Return step → the worker that it ran on last."""
    return dict(re.findall(r"^   (\S+)  on (\S+)$", ran.output, re.MULTILINE))


def wait_for(condition: Callable[[], bool], seconds: float = START_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def find_step(worker: subprocess.Popen[bytes]) -> psutil.Process | None:
    """Return the process of the step that the worker runs now."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return next(iter(find_below(psutil.Process(worker.pid), lambda each: STEP in each.cmdline())), None)
    return None


def kill_worker_of(step: psutil.Process) -> None:
    """Kill the Dask worker that has started the step's process, if the step still runs; its nanny lives."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = step.parent()
        if parent is not None and "multiprocessing" in " ".join(parent.cmdline()):
            parent.send_signal(signal.SIGKILL)
