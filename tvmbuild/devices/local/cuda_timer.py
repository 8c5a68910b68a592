"""Timing of a search's CUDA candidates on this machine's card. They run in CUDA graphs, as they do in packages."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvmbuild.devices.candidates import STEADY, Argument, Timing, make_tensors
from tvmbuild.devices.local.cuda_driver import capture, open_stream, synchronize, time_on_device
from tvmbuild.devices.local.gpu_timer import use_gpu
from tvmbuild.devices.lock import device_lock

GRAPH_S, MAX_CALLS = 300e-6, 50
"""The time of a graph in seconds, and its largest number of calls: a graph must be long beside its own launch."""


_DEFAULT_STREAM = 0


def time_kernel(library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
    """Load the library and time its function on random ``arguments``. Returns samples in seconds per call.

    The card's lock is held only for this candidate, so that several searches can share the card.
    """
    import tvm_ffi  # noqa: PLC0415 - in a worker process

    device = use_gpu("cuda")
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
        synchronize(_DEFAULT_STREAM)  # the tensors are copied there
        launch(1)  # loads the code
        synchronize(stream)
        rough = time_on_device(stream, lambda: launch(1))
        if rough > timing.enough_s + GRAPH_S:
            return [rough]
        calls = max(1, min(MAX_CALLS, int(GRAPH_S / rough)))
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
