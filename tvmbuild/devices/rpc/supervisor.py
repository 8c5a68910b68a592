"""The supervisor of a board's RPC server. It restarts the server after a crash of a session has ended it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.base.processes import run_module
from tvmbuild.errors import TvmbuildError

SHORT_S = 10.0
"""The seconds that a server must run; one that ends sooner is restarted after a pause, which doubles each time."""
LONGEST_PAUSE_S = 30.0
END_S = 5.0
_LOOPBACK = ("127.", "localhost", "::1")


@dataclass(frozen=True)
class Serving:
    """The options of a board's server: its address, and the tracker where it registers."""

    tracker: tuple[str, int]
    """The tracker's host and port."""
    key: str
    """The key under which the tracker lists the board."""
    host: str = "127.0.0.1"
    """The address to which the server binds."""
    port: int = 9090
    """The first port that the server tries."""
    address: str | None = None
    """The address that the tracker gives to clients. None means the address from which the server connects to it."""
    cpu: str = ""
    """LLVM's name of the board's CPU. Empty means that it must be detected before the server starts."""


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is a loopback address, which only this machine can reach."""
    return host.startswith(_LOOPBACK)


def check_reachable(serving: Serving) -> None:
    """Raise TvmbuildError if clients of the tracker on another machine cannot reach the server."""
    if is_loopback(serving.host) and not is_loopback(serving.tracker[0]) and serving.address is None:
        raise TvmbuildError(
            f"the server would answer on {serving.host} only, and its tracker is on {serving.tracker[0]}",
            "give this board's address by `--host`, in a network that you trust: whoever reaches the port can run "
            "any program here",
        )


def find_cpu() -> str:
    """Return LLVM's name of this CPU, or the kernel's name if this TVM has no LLVM."""
    done = run_module("tvmbuild.devices.local.describe", "llvm")
    if done.returncode != 0:
        return cpu_name()
    return str(json.loads(done.stdout.splitlines()[-1])["mcpu"])


def supervise(serving: Serving) -> None:
    """Run the server, and restart it whenever it ends, until KeyboardInterrupt. Each start has a new folder."""
    pause = 0.0
    while True:
        started = time.monotonic()
        with TemporaryDirectory(prefix="tvmbuild-board-", ignore_cleanup_errors=True) as folder:
            code = _run_server(serving, Path(folder))
        pause = 0.0 if time.monotonic() - started > SHORT_S else min(LONGEST_PAUSE_S, max(1.0, 2 * pause))
        _say(f"the server ended (exit code {code}): it is started again" + (f" in {pause:g} s" if pause else ""))
        time.sleep(pause)


def _run_server(serving: Serving, folder: Path) -> int:
    """Run the server until it ends, then end all processes that it started. Returns its exit code."""
    (folder / "start").mkdir()
    # Sessions make their folders in TMPDIR: folders that a crash leaves are removed with it.
    environment = {**os.environ, "TMPDIR": str(folder), "TVM_USE_RUNTIME_LIB": "1"}
    command = [sys.executable, "-m", "tvmbuild.devices.rpc.server", json.dumps(asdict(serving))]
    process = subprocess.Popen(command, cwd=folder / "start", env=environment, start_new_session=True)
    try:
        return process.wait()
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
