"""What times a search's candidates: this machine's worker processes, or boards."""

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
"""A worker is replaced after this many candidates: LLVM leaks."""


class NoDeviceError(TvmbuildError):
    """There is nothing left that could time a candidate."""


class CandidateTimer(Protocol):
    """Runs candidates; several threads may ask at once."""

    @property
    def width(self) -> int:
        """Return how many it times at once."""

    def time(self, library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
        """Return samples in seconds; whatever the candidate did to its process is raised, TimeoutError first of all."""

    def compare(self, workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
        """Do what `compare_libraries` does."""

    def close(self) -> None:
        """End all processes; what they were doing is given up."""


class LocalTimer:
    """One worker process, bound to ``cores``."""

    width = 1

    def __init__(self, cores: Sequence[int], timeout_s: int = TIME_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._pool = start_pool(cores, 1, timeout_s)

    def time(self, library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
        """Time one library."""
        try:
            return list(self._pool.submit(time_candidate, library, arguments, timing).result())
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {self._timeout_s} s") from error

    def compare(self, workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
        """Compare a library's numbers with the workload's."""
        fault: str | None = self._pool.submit(compare_libraries, workload, library, arguments).result()
        return fault

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


class WorkerPool(PopenPoolExecutor):  # type: ignore[misc]  # TVM has no types
    """TVM's pool, whose processes are gone when it has ended, at once and whatever they were doing.

    TVM's waits for the answer of one that works, and for the end of one that it has killed a second at the most: on a
    busy machine that leaves zombies. https://github.com/apache/tvm `support/popen_pool.py`
    """

    def shutdown(self, wait: bool = True) -> None:
        """End all processes; jobs that had not begun are cancelled."""
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
        """Kill the process; whoever waits for its answer learns of it."""
        process = self._proc
        if process is not None:
            kill_child_processes(process.pid)
            process.kill()


def start_pool(cores: Sequence[int], workers: int, timeout_s: int) -> WorkerPool:
    """Return worker processes that are bound to those ``cores``."""
    return WorkerPool(
        max_workers=workers,
        timeout=timeout_s,
        initializer=start_worker,
        initargs=(tuple(cores),),
        maximum_process_uses=USES_PER_WORKER,
        stderr=subprocess.DEVNULL,
    )
