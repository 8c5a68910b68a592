"""A timer of a search's candidates on this machine's GPU, in a worker process that is replaced if it breaks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from tvmbuild.devices.candidate_timer import TIME_TIMEOUT_S, start_pool
from tvmbuild.devices.candidates import Argument, Timing, describe_difference, draw_inputs, run_library
from tvmbuild.errors import TvmbuildError
from tvmbuild.targets.table import target_kind

T = TypeVar("T")


class GpuTimer:
    """A timer with one worker process, bound to ``cores``, for this machine's first device of a target's ``kind``.

    The process calls ``function`` to time a candidate. It keeps the device, its memory and the inputs for the next
    candidate.
    """

    width = 1

    def __init__(
        self,
        kind: str,
        function: Callable[[str, tuple[Argument, ...], Timing], list[float]],
        cores: Sequence[int],
        timeout_s: int = TIME_TIMEOUT_S,
    ) -> None:
        self._kind = kind
        self._function = function
        self._timeout_s = timeout_s
        self._pool = start_pool(cores, 1, timeout_s)

    def find_device_class(self) -> str:
        """Return the device class of the GPU. Raises TvmbuildError if no device can be used."""
        answer = self._ask(name_device, self._kind)
        if "error" in answer:
            raise TvmbuildError(str(answer["error"]), answer.get("hint"))
        return str(answer["device_class"])

    def time(self, library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
        """Time a candidate and return its samples in seconds per call.

        Raises the candidate's error if it fails, and TimeoutError if it hangs.
        """
        return self._ask(self._function, library, arguments, timing)

    def compare(self, workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
        """Return how the outputs of ``library`` differ from those of ``workload``, which runs on the CPU, or None."""
        return self._ask(compare_with_cpu, self._kind, workload, library, arguments)

    def close(self) -> None:
        """End the worker process."""
        self._pool.shutdown()

    def _ask(self, function: Callable[..., T], *arguments: object) -> T:
        try:
            result: T = self._pool.submit(function, *arguments).result()
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {self._timeout_s} s") from error
        except Exception:
            # An illegal access breaks a CUDA context, and all later candidates of the process would fail.
            with contextlib.suppress(Exception):
                self._pool.submit(os._exit, 1).result()
            raise
        return result


def name_device(kind: str) -> dict[str, str | None]:
    """Return the device class of this machine's first device of a GPU kind, or the error as a value.

    The pool would lose the message of a raised error.
    """
    try:
        return {"device_class": target_kind(kind).find_device_class()}
    except TvmbuildError as error:
        return {"error": error.message, "hint": error.hint}


def compare_with_cpu(kind: str, workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
    """Run ``workload`` on the CPU and ``library`` on the GPU on the same inputs and return how its outputs differ.

    Returns None if the outputs agree, or if ``workload`` cannot run because only lld linked it. Raises if ``library``
    cannot run.
    """
    inputs = draw_inputs(arguments)
    try:
        want = run_library(workload, inputs, "cpu")
    except (RuntimeError, OSError):
        return None
    use_gpu(kind)
    return describe_difference(want, run_library(library, inputs, kind))


@cache
def use_gpu(kind: str) -> Any:
    """Load the runtime of a GPU kind and return this machine's first device of that kind."""
    import tvm  # noqa: F401, PLC0415 - in a worker process
    import tvm_ffi  # noqa: PLC0415

    from tvmbuild.package.runtime.host import find_device  # noqa: PLC0415

    find_device(kind)
    return tvm_ffi.device(kind, 0)
