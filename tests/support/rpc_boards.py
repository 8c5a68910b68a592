"""Trackers and boards on this machine's loopback, as their own commands start them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from other_processes import find_below

from tvmbuild.devices.rpc.tracker import list_boards
from tvmbuild.errors import TvmbuildError

CPU = "testboard"
"""The CPU name that boards started here report."""
START_S = 120.0
OLD = """
import sys
from tvmbuild.devices.rpc import server
server.find_tvm = lambda: "0.24.0"
sys.exit(server.main(sys.argv[1:]))
"""
"""A board's server whose TVM reports another version."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(condition: Callable[[], bool], seconds: float = START_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def count_boards(tracker: str, key: str) -> int:
    try:
        found = list_boards(tracker).get(key)
    except TvmbuildError:
        return -1
    return len(found.addresses) if found else 0


def count_free(tracker: str, key: str) -> int:
    found = list_boards(tracker).get(key)
    return found.free if found else 0


@dataclass(frozen=True)
class Python:
    """The Python of this machine, or of an emulated board."""

    program: str = sys.executable
    variables: Mapping[str, str] = field(default_factory=dict)


HERE = Python()


@contextmanager
def running(arguments: list[str], log: Path, python: Python = HERE) -> Iterator[psutil.Process]:
    """Run Python with these arguments until the context ends, then kill it and all processes that it has started."""
    command, environment = [python.program, *arguments], {**os.environ, **python.variables}
    with log.open("ab") as stream:
        popen = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream, start_new_session=True)
    process = psutil.Process(popen.pid)
    try:
        yield process
    finally:
        kill_tree(process)
        popen.wait()


def kill_tree(process: psutil.Process) -> None:
    for each in (process, *find_below(process)):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


@contextmanager
def tracker(folder: Path) -> Iterator[str]:
    """Yield host:port of a running tracker."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    with running(["-m", "tvmbuild", "device", "tracker", "--port", str(port)], folder / "tracker.log"):
        wait_until(lambda: count_boards(address, "") == 0)
        yield address


@contextmanager
def board(address: str, key: str, folder: Path, python: Python = HERE) -> Iterator[psutil.Process]:
    """Yield the supervisor of a board that the tracker knows."""
    free = count_free(address, key)
    with starting_board(address, key, folder, python) as process:
        wait_until(lambda: count_free(address, key) > free)
        yield process


@contextmanager
def starting_board(address: str, key: str, folder: Path, python: Python = HERE) -> Iterator[psutil.Process]:
    """Yield the supervisor of a board that the tracker will know."""
    arguments = ["-m", "tvmbuild", "device", "serve", "--tracker", address, "--key", key]
    log = folder / f"{key}-{count_boards(address, key)}.log"
    with running([*arguments, "--port", str(free_port()), "--cpu", CPU], log, python) as process:
        yield process


def find_sessions(supervisor: psutil.Process) -> list[psutil.Process]:
    """Return the processes of a board's open sessions."""
    return [session for server in supervisor.children() for session in find_below(server, recursive=False)]


def find_workers(supervisor: psutil.Process) -> list[psutil.Process]:
    """Return the processes that run packages for a board's sessions."""
    return [worker for session in find_sessions(supervisor) for worker in find_below(session, recursive=False)]


def end(process: psutil.Process) -> None:
    """End a program as Ctrl-C does."""
    os.kill(process.pid, signal.SIGINT)
