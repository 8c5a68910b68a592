"""What times a search's candidates: this machine's worker processes, or boards."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Protocol

from tvm.support.popen_pool import PopenPoolExecutor

from tvmbuild.devices.candidates import Argument, Timing, compare_libraries, start_worker, time_candidate
from tvmbuild.errors import TvmbuildError

TIME_TIMEOUT_S = 15
USES_PER_WORKER = 400
"""A worker is replaced after this many candidates: LLVM leaks."""


class NoDeviceError(TvmbuildError):
    """There is nothing left that could time a candidate."""


class CandidateTimer(Protocol):
    """Runs candidates; several threads may ask at once."""

    width: int
    """How many it times at once."""

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


def start_pool(cores: Sequence[int], workers: int, timeout_s: int) -> PopenPoolExecutor:
    """Return worker processes that are bound to those ``cores``."""
    return PopenPoolExecutor(
        max_workers=workers,
        timeout=timeout_s,
        initializer=start_worker,
        initargs=(tuple(cores),),
        maximum_process_uses=USES_PER_WORKER,
        stderr=subprocess.DEVNULL,
    )
