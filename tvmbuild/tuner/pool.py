"""Worker processes that build candidates in parallel and time them one at a time."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm.support.popen_pool import PopenPoolExecutor, StatusKind

from tvmbuild.tuner.worker import Timing, build_candidate, start_worker, time_candidate

BUILD_TIMEOUT_S = 30
TIME_TIMEOUT_S = 15
UNBUILT = "build failed: "
"""How the error of a candidate begins that the compiler or the linker refused."""
USES_PER_WORKER = 400
"""A worker is replaced after this many candidates: LLVM leaks."""


@dataclass(frozen=True)
class Built:
    """One candidate as a shared library, or why it could not be built."""

    library: str | None
    error: str | None = None


@dataclass(frozen=True)
class Timed:
    """One candidate's samples in seconds, or why there are none."""

    samples: tuple[float, ...] = ()
    error: str | None = None

    @property
    def seconds(self) -> float:
        """Median of the samples; infinity when the candidate failed."""
        return statistics.median(self.samples) if self.samples else float("inf")


@contextmanager
def candidate_pool(target: Any, workers: int) -> Iterator[CandidatePool]:
    """Yield a pool; on the way out its processes end and its libraries are removed."""
    builders, timer = _executor(workers, BUILD_TIMEOUT_S), _executor(1, TIME_TIMEOUT_S)
    try:
        with tempfile.TemporaryDirectory(prefix="tvmbuild-tune-") as folder:
            yield CandidatePool(target, Path(folder), builders, timer)
    finally:
        builders.shutdown()
        timer.shutdown()


class CandidatePool:
    """Builders and one timer; libraries are written to ``folder``."""

    def __init__(self, target: Any, folder: Path, builders: PopenPoolExecutor, timer: PopenPoolExecutor) -> None:
        self._target = target
        self.folder = folder
        self._builders = builders
        self._timer = timer
        self._made = 0

    def build(self, candidates: Sequence[Any]) -> list[Built]:
        """Compile MeasureCandidates; the answer is in their order."""
        inputs = []
        for candidate in candidates:
            self._made += 1
            inputs.append((candidate.sch.mod, self._target, str(self.folder / f"{self._made}.so")))
        results = self._builders.map_with_error_catching(_build, inputs)
        return [
            Built(result.value)
            if result.status == StatusKind.COMPLETE
            else Built(None, _explain(result.status, result.value))
            for result in results
        ]

    def time(self, library: str, args_info: Sequence[Any], timing: Timing) -> Timed:
        """Time one library while nothing else of this pool runs."""
        arguments = tuple(tuple(json.loads(json.dumps(_plain(info.as_json())))) for info in args_info)
        (result,) = self._timer.map_with_error_catching(_time, [(library, arguments, timing)])
        if result.status == StatusKind.COMPLETE:
            return Timed(tuple(result.value))
        if result.status == StatusKind.TIMEOUT:
            return Timed(error=f"run: no answer within {TIME_TIMEOUT_S} s")
        return Timed(error=f"run: {result.value}")

    def remove(self, built: Sequence[Built]) -> None:
        """Delete the libraries of candidates that will not be timed any more."""
        for item in built:
            if item.library:
                Path(item.library).unlink(missing_ok=True)


def _explain(status: StatusKind, error: object) -> str:
    return f"build: no end within {BUILD_TIMEOUT_S} s" if status == StatusKind.TIMEOUT else f"{UNBUILT}{error}"


def _executor(workers: int, timeout_s: int) -> PopenPoolExecutor:
    return PopenPoolExecutor(
        max_workers=workers,
        timeout=timeout_s,
        initializer=start_worker,
        maximum_process_uses=USES_PER_WORKER,
        stderr=subprocess.DEVNULL,
    )


def _build(arguments: tuple[Any, Any, str]) -> str:
    return build_candidate(*arguments)


def _time(arguments: tuple[str, tuple[Any, ...], Timing]) -> list[float]:
    return time_candidate(*arguments)


def _plain(info: Any) -> list[Any]:
    kind, dtype, shape = info
    return [str(kind), str(dtype), [int(extent) for extent in shape]]
