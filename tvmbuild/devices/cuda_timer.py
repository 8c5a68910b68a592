"""Times a search's CUDA candidates on this machine's card, in a worker process that a bad kernel may break."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tvmbuild.devices.candidate_timer import TIME_TIMEOUT_S, start_pool
from tvmbuild.devices.candidates import (
    STEADY,
    Argument,
    Timing,
    describe_difference,
    draw_inputs,
    make_tensors,
    run_library,
)
from tvmbuild.devices.cuda_driver import capture, open_stream, synchronize, time_on_device
from tvmbuild.devices.lock import device_lock

T = TypeVar("T")

GRAPH_S, MOST_CALLS = 300e-6, 50
"""A graph has so many calls that it takes about so long: then what starts it does not count."""


class CudaTimer:
    """One worker process. The card is held for one candidate at a time, so that several searches can share it."""

    width = 1

    def __init__(self, cores: Sequence[int]) -> None:
        self._pool = start_pool(cores, 1, TIME_TIMEOUT_S)

    def time(self, library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
        """Return samples in seconds, each the mean of many calls in a CUDA graph, which is how packages run."""
        return self._ask(time_kernel, library, arguments, timing)

    def compare(self, workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
        """Return how a kernel's numbers differ from those of the ``workload``, which runs on the CPU."""
        return self._ask(compare_with_cpu, workload, library, arguments)

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()

    def _ask(self, function: Callable[..., T], *arguments: object) -> T:
        try:
            result: T = self._pool.submit(function, *arguments).result()
        except Exception:
            # An illegal access breaks the CUDA context, and all later candidates of the process would fail.
            with contextlib.suppress(Exception):
                self._pool.submit(os._exit, 1).result()
            raise
        return result


def time_kernel(library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
    """Load the library and time its function on random ``arguments``; seconds, one a sample."""
    import tvm_ffi  # noqa: PLC0415 - in a worker process

    device = _use_card()
    tensors = make_tensors(arguments, "cuda")
    function = tvm_ffi.load_module(library, keep_module_alive=False)["main"]

    def launch(calls: int) -> None:
        for _ in range(calls):
            function(*tensors)

    with (
        device_lock("cuda", exclusive=True, quiet=True),
        open_stream() as stream,
        tvm_ffi.use_raw_stream(device, stream),
    ):
        launch(1)  # loads the code
        synchronize(stream)
        rough = time_on_device(stream, lambda: launch(1))
        if rough > timing.enough_s + GRAPH_S:
            return [rough]
        calls = max(1, min(MOST_CALLS, int(GRAPH_S / rough)))
        with capture(stream, lambda: launch(calls)) as run:
            run()
            return _take_samples(stream, run, calls, timing)


def _take_samples(stream: int, run: Callable[[], None], calls: int, timing: Timing) -> list[float]:
    def sample(runs: int) -> float:
        def work() -> None:
            for _ in range(runs):
                run()

        return time_on_device(stream, work) / (runs * calls)

    first = sample(1)
    if first > timing.enough_s:
        return [first]
    least = max(timing.number / calls, timing.min_repeat_ms / 1000 / (first * calls))
    runs = max(1, math.ceil(least))
    samples = [sample(runs) for _ in range(timing.repeat)]
    if max(samples) > STEADY * min(samples):
        samples += [sample(runs) for _ in range(timing.repeat)]
    return samples


def compare_with_cpu(workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
    """Run ``workload`` on the CPU and ``library`` on the card with the same random inputs; return how they differ.

    Raises when ``library`` cannot be run. A ``workload`` that cannot, linked by lld alone, finds no fault.
    """
    inputs = draw_inputs(arguments)
    try:
        want = run_library(workload, inputs, "cpu")
    except (RuntimeError, OSError):
        return None
    _use_card()
    return describe_difference(want, run_library(library, inputs, "cuda"))


def _use_card() -> Any:
    import tvm  # noqa: F401, PLC0415 - in a worker process
    import tvm_ffi  # noqa: PLC0415

    from tvmbuild.package.runtime.host import find_device  # noqa: PLC0415

    find_device("cuda")
    return tvm_ffi.device("cuda", 0)
