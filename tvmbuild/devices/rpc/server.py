"""The program of a board's server: TVM's own RPC server, with added functions that run packages and candidates.

:mod:`tvmbuild.devices.rpc.supervisor` starts it as ``python -m tvmbuild.devices.rpc.server OPTIONS`` (one JSON object).
A session runs in its own process and its own folder, which is removed when the session ends. It runs packages and
candidates in child processes, with the same workers as the local device, so that a crash does not end the session.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm.rpc.server import PopenRPCServerState

from tvmbuild import __version__
from tvmbuild.base.processes import die_with_parent
from tvmbuild.devices.candidate_timer import CandidateTimer, LocalTimer
from tvmbuild.devices.candidates import Argument, Timing
from tvmbuild.devices.local.gpu_timer import GpuTimer
from tvmbuild.devices.local.timers import make_timer
from tvmbuild.devices.model_worker import Load, Worker, start_worker
from tvmbuild.devices.rpc.protocol import PREFIX, PROTOCOL, BoardInfo, find_tvm
from tvmbuild.errors import TvmbuildError

CANDIDATE_TIMEOUT_S = 60
"""The time limit of a candidate, in seconds. The first one waits until TVM is imported, which an SD card makes slow."""
PORTS = 100
"""The number of ports that the server tries, beginning with the requested port."""


@dataclass(frozen=True)
class _BoardCores:
    building: Sequence[int]
    timing: Sequence[int]


class BoardJobs:
    """The jobs of one session. They run one after the other, on a thread that lives as long as the session."""

    def __init__(self) -> None:
        # A worker dies with the thread that has started it.
        self._thread = ThreadPoolExecutor(1)
        self._stack = ExitStack()
        self._worker: Worker | None = None
        self._timer: CandidateTimer | None = None
        self._job: Future[dict[str, Any]] | None = None

    def submit(self, job: Mapping[str, Any]) -> None:
        """Begin a job, and return at once. :meth:`poll` returns its result."""
        self._job = self._thread.submit(self._do, job)

    def poll(self, seconds: float) -> dict[str, Any]:
        """Wait up to ``seconds`` for the result of the job and return it, or `{"waiting": True}` if it is not ready."""
        if self._job is None:
            raise RuntimeError("there is no job")
        try:
            return self._job.result(seconds)
        except NotYetError:
            return {"waiting": True}

    def _do(self, job: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return JOBS[job["job"]](self, job)
        except TvmbuildError as error:
            return {"error": error.message, "hint": error.hint}
        except Exception as error:  # noqa: BLE001 - the other side must learn of it; the server's log has the traceback
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}", "hint": "the server's log on the board has more"}

    def start(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Start a worker with a package in the session's folder, instead of the previous one; return its threads."""
        self._stack.close()
        load = Load("tvm", Path(job["package"]), Path(job["reference"]), int(job["threads"]))
        self._worker = self._stack.enter_context(start_worker(load))
        return {"threads": self._worker.threads}

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Pass a command on to the worker and return its answer."""
        if self._worker is None:
            raise RuntimeError("nothing is loaded")
        command = {name: str(Path(value).absolute()) if name in _FILES else value for name, value in _command(job)}
        return self._worker.ask(command, int(command.get("number", 1)))

    def find_class(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the device class of the GPU on which candidates of the job's kind run, or None for a CPU kind."""
        timer = self._make_timer(job)
        return {"device_class": timer.find_device_class() if isinstance(timer, GpuTimer) else None}

    def time(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Time a candidate and return its samples in seconds per call, or the reason why it failed."""
        timing = Timing(**job["timing"])
        return self._try(job, lambda timer: {"seconds": timer.time(_path(job, "library"), _arguments(job), timing)})

    def compare(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return how a candidate's outputs differ from those of its workload, or the reason why it failed."""
        return self._try(
            job,
            lambda timer: {"fault": timer.compare(_path(job, "workload"), _path(job, "library"), _arguments(job))},
        )

    def _try(self, job: Mapping[str, Any], run: Callable[[CandidateTimer], dict[str, Any]]) -> dict[str, Any]:
        """Return the result of ``run``, or an answer with the reason if the candidate fails or hangs."""
        timer = self._make_timer(job)
        try:
            return run(timer)
        except TimeoutError as error:
            return {"failed": str(error), "timeout": True}
        except Exception as error:  # noqa: BLE001 - a candidate can break its process in any way
            return {"failed": str(error)}

    def _make_timer(self, job: Mapping[str, Any]) -> CandidateTimer:
        """Return the session's timer of candidates, which the first job makes. All jobs must have the same kind."""
        if self._timer is None:
            os.environ["TVM_NUM_THREADS"] = str(job["threads"])
            cores = sorted(os.sched_getaffinity(0))[: job["threads"]]
            on_gpu = make_timer(job["kind"], _BoardCores(cores, cores), CANDIDATE_TIMEOUT_S)
            self._timer = on_gpu or LocalTimer(cores, CANDIDATE_TIMEOUT_S)
        return self._timer


def _path(job: Mapping[str, Any], role: str) -> str:
    return str(Path(job[role]).absolute())


def _arguments(job: Mapping[str, Any]) -> tuple[Argument, ...]:
    return tuple((str(dtype), tuple(shape)) for dtype, shape in job["arguments"])


def _command(job: Mapping[str, Any]) -> list[tuple[str, Any]]:
    command: dict[str, Any] = job["command"]
    return list(command.items())


_FILES = ("path", "inputs")
"""The keys of a worker's commands whose values name files in the session's folder."""
JOBS: dict[str, Callable[[BoardJobs, Mapping[str, Any]], dict[str, Any]]] = {
    "start": BoardJobs.start,
    "ask": BoardJobs.ask,
    "find_class": BoardJobs.find_class,
    "time": BoardJobs.time,
    "compare": BoardJobs.compare,
}


def describe_board(cpu: str) -> BoardInfo:
    """Return this board's description of itself. ``cpu`` is LLVM's name of its CPU."""
    cores = len(os.sched_getaffinity(0))
    return BoardInfo(PROTOCOL, find_tvm(), __version__, platform.machine(), cpu, cores)


def register_functions(cpu: str) -> None:
    """Register the functions of the protocol in TVM's registry. The processes of sessions are forked from this one."""
    board: list[BoardJobs] = []  # made in the session's own process, because threads do not survive a fork

    def here() -> BoardJobs:
        if not board:
            die_with_parent()  # a session must end when its server is killed
            board.append(BoardJobs())
        return board[0]

    def write(name: str, content: bytes) -> None:
        with Path(name).open("ab") as file:
            file.write(content)

    def read(name: str, offset: int, size: int) -> bytearray:
        with Path(name).open("rb") as file:
            file.seek(offset)
            return bytearray(file.read(size))

    functions: dict[str, Callable[..., object]] = {
        "describe": lambda: json.dumps(asdict(describe_board(cpu))),
        "submit": lambda job: here().submit(json.loads(job)),
        "poll": lambda seconds: json.dumps(here().poll(seconds)),
        "write": write,
        "read": read,
        "remove": lambda name: Path(name).unlink(missing_ok=True),
    }
    for name, function in functions.items():
        tvm_ffi.register_global_func(PREFIX + name, function, override=True)


def main(arguments: list[str]) -> int:
    """Serve until the listener ends, which happens if a session crashes."""
    die_with_parent()
    options = json.loads(arguments[0])
    # TVM's server starts sessions by multiprocessing, and they must have this process's functions.
    multiprocessing.set_start_method("fork")
    register_functions(options["cpu"])
    host, port = options["host"], options["port"]
    tracker = tuple(options["tracker"])
    state = PopenRPCServerState(
        host, port, port + PORTS, False, tracker, options["key"], custom_addr=options["address"]
    )
    print(f"serving as {options['key']} on {host}:{state.port}", flush=True)
    state.thread.join()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
