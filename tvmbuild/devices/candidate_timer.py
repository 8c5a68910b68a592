"""Timers of a search's candidates: the interface, and an implementation with worker processes on this machine."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from tvm.support.popen_pool import PopenPoolExecutor, PopenWorker, kill_child_processes

from tvmbuild.devices.candidates import Argument, Timing, compare_libraries, start_worker, time_candidate
from tvmbuild.errors import TvmbuildError

TIME_TIMEOUT_S = 15
USES_PER_WORKER = 400
"""The number of candidates after which a worker is replaced, because LLVM leaks."""


class NoDeviceError(TvmbuildError):
    """The error of a search that has lost all devices that could time its candidates."""


class CandidateTimer(Protocol):
    """A timer of candidates, which are shared libraries, given by their paths. Several threads may call it at once."""

    @property
    def width(self) -> int:
        """Return the number of candidates that the timer times at the same time."""

    def time(self, library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
        """Time a candidate and return its samples, in seconds per call.

        Raises the candidate's error if it fails, and TimeoutError if it hangs.
        """

    def compare(self, workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
        """Return how the outputs of ``library`` differ from those of ``workload``, or None. See `compare_libraries`."""

    def close(self) -> None:
        """End all processes, including those that are timing a candidate."""


class LocalTimer:
    """A timer of CPU candidates with one worker process, which is bound to ``cores``."""

    width = 1

    def __init__(self, cores: Sequence[int], timeout_s: int = TIME_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._pool = start_pool(cores, 1, timeout_s)

    def time(self, library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
        """Time a candidate in the worker process and return its samples, in seconds per call.

        Raises TimeoutError if the process gives no answer in time.
        """
        try:
            return list(self._pool.submit(time_candidate, library, arguments, timing).result())
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {self._timeout_s} s") from error

    def compare(self, workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
        """Return how the outputs of ``library`` differ from those of ``workload``, or None if they agree."""
        fault: str | None = self._pool.submit(compare_libraries, workload, library, arguments).result()
        return fault

    def close(self) -> None:
        """End the worker process."""
        self._pool.shutdown()


class WorkerPool(PopenPoolExecutor):  # type: ignore[misc]  # TVM has no types
    """TVM's process pool with a shutdown that ends all processes at once, including busy ones.

    TVM's own pool (`support/popen_pool.py` in https://github.com/apache/tvm) waits for the answers of busy processes.
    It waits at most a second for the end of a process that it killed, which leaves zombies on a busy machine.
    """

    def shutdown(self, wait: bool = True) -> None:
        """End all processes and cancel the jobs that have not begun."""
        self._threadpool.shutdown(wait=False, cancel_futures=True)
        for worker in list(self._worker_map.values()):
            worker.interrupt()
        self._threadpool.shutdown(wait=True)  # each thread sees its process end
        super().shutdown(wait)

    def _worker_run(self, fn: Any, args: Any, kwargs: Any) -> Any:
        thread = threading.get_ident()
        if thread not in self._worker_map:
            self._worker_map[thread] = _Worker(
                self._initializer, self._initargs, self._maximum_process_uses, self._stdout, self._stderr
            )
        return super()._worker_run(fn, args, kwargs)


class _Worker(PopenWorker):  # type: ignore[misc]
    def join(self, timeout: float | None = None) -> None:  # noqa: ARG002 - it was killed: it will end
        super().join()

    def interrupt(self) -> None:
        """Kill the process. A thread that waits for an answer of the process gets an error."""
        process = self._proc
        if process is not None:
            kill_child_processes(process.pid)
            process.kill()


def start_pool(cores: Sequence[int], workers: int, timeout_s: int) -> WorkerPool:
    """Return a pool of ``workers`` processes that are bound to ``cores``. A job fails after ``timeout_s`` seconds."""
    return WorkerPool(
        max_workers=workers,
        timeout=timeout_s,
        initializer=start_worker,
        initargs=(tuple(cores),),
        maximum_process_uses=USES_PER_WORKER,
        stderr=subprocess.DEVNULL,
    )
