"""Candidates of a search on the machine whose cores compute them: timed, and compared with what they should compute.

These are the functions that run in worker processes.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tvmbuild.base.processes import die_with_parent
from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics

TOLERANCE = 1e-3
"""Of an output's largest magnitude: sums in another order differ by far less, wrong ones by far more."""
HALF_TOLERANCE = 1e-2
"""The same for float16, whose last bit is a thousandth: each rounding of a fused chain may fall the other way."""
STEADY = 1.1
"""Samples whose slowest is within this factor of the fastest agree."""


@dataclass(frozen=True)
class Timing:
    """How one candidate is timed: ``repeat`` samples of at least ``number`` calls and ``min_repeat_ms``."""

    number: int
    repeat: int
    min_repeat_ms: int
    enough_s: float = float("inf")
    """A first sample slower than this is enough: the candidate is no winner, whatever the others say."""


def start_worker(cores: Sequence[int]) -> None:
    """Initialise a worker process that may use those ``cores`` only."""
    die_with_parent()
    # Ctrl-C reaches the whole process group; the tuner decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, cores)
    skip_tensor_intrinsics()


Argument = tuple[str, tuple[int, ...]]
"""(dtype, shape) of one tensor."""


def time_candidate(library: str, arguments: tuple[Argument, ...], timing: Timing, kind: str = "cpu") -> list[float]:
    """Load the library and time its function on random ``arguments`` on the device; seconds, one a sample.

    Samples that disagree are taken once more: something else ran on these cores.
    """
    import tvm  # noqa: PLC0415
    import tvm_ffi  # noqa: PLC0415

    from tvmbuild.package.runtime.library import num_threads  # noqa: PLC0415
    from tvmbuild.package.runtime.thread_pool import use_own_pool  # noqa: PLC0415

    tensors = make_tensors(arguments, kind)
    # Not runtime.load_module: it keeps every library, and its threads, until the process ends.
    module, device = tvm_ffi.load_module(library, keep_module_alive=False), tvm.device(kind, 0)
    if kind == "cpu":
        use_own_pool(Path(library), num_threads())

    def sample(number: int, repeat: int) -> list[float]:
        # Not min_repeat_ms: TVM finds the number by trying, for each sample again.
        evaluator = module.time_evaluator(module.entry_name, device, number=number, repeat=repeat)
        return [float(value) for value in evaluator(*tensors).results]

    rough = sample(timing.number, 1)
    number = max(timing.number, math.ceil(timing.min_repeat_ms / 1000 / max(rough[0], 1e-9)))
    samples = rough if number == timing.number else sample(number, 1)
    if samples[0] > timing.enough_s:
        return samples
    samples += sample(number, timing.repeat - 1) if timing.repeat > 1 else []
    if max(samples) > STEADY * min(samples):
        samples += sample(number, timing.repeat)
    return samples


@lru_cache(maxsize=4)
def make_tensors(arguments: tuple[Argument, ...], device: str = "cpu") -> list[Any]:
    """Return tensors that are filled once for all candidates of a Task: that takes longer than timing one."""
    import tvm  # noqa: PLC0415

    # The runtime library alone, as boards have it, is without.
    fill = tvm.get_global_func("tvm.contrib.random.random_fill_for_measure", allow_missing=True)
    tensors = []
    for dtype, shape in arguments:
        tensor = tvm.runtime.empty(shape=shape, dtype=dtype, device=tvm.device(device, 0))
        if "int" in dtype:
            # May be indices: random ones read out of bounds.
            tensor.copyfrom(np.zeros(shape, dtype))
        elif fill is None:
            tensor.copyfrom(np.random.default_rng(0).random(shape, np.float32).astype(dtype))
        else:
            fill(tensor)
        tensors.append(tensor)
    return tensors


def compare_libraries(workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
    """Run the functions of both on the same random inputs; return how ``library`` differs, None when it does not.

    Raises when ``library`` cannot be run. A ``workload`` that cannot, linked by lld alone, finds no fault.
    """
    inputs = draw_inputs(arguments)
    try:
        want = run_library(workload, inputs)
    except (RuntimeError, OSError):
        return None
    return describe_difference(want, run_library(library, inputs))


def run_library(
    library: str, inputs: Sequence[np.ndarray[Any, Any]], device: str = "cpu"
) -> list[np.ndarray[Any, Any]]:
    """Run the library's function on the device; return its arguments after the run."""
    import tvm  # noqa: PLC0415
    import tvm_ffi  # noqa: PLC0415

    module = tvm_ffi.load_module(library, keep_module_alive=False)
    tensors = [tvm.runtime.tensor(value, tvm.device(device, 0)) for value in inputs]
    module["main"](*tensors)
    return [tensor.numpy() for tensor in tensors]


def describe_difference(want: Sequence[np.ndarray[Any, Any]], got: Sequence[np.ndarray[Any, Any]]) -> str | None:
    """Return how the arguments differ after a run, None when they do not."""
    for index, (right, value) in enumerate(zip(want, got, strict=True)):
        if right.dtype.kind != "f":
            if not np.array_equal(right, value):
                return f"argument {index} differs in {np.count_nonzero(right != value)} of {right.size} elements"
            continue
        largest = float(np.abs(right[np.isfinite(right)]).max(initial=0.0))
        tolerance = HALF_TOLERANCE if right.dtype == np.float16 else TOLERANCE
        wrong = ~np.isclose(value, right, rtol=tolerance, atol=tolerance * largest, equal_nan=True)
        if wrong.any():
            return f"argument {index} differs in {np.count_nonzero(wrong)} of {right.size} elements"
    return None


def draw_inputs(arguments: Sequence[Argument]) -> list[np.ndarray[Any, Any]]:
    """Return random arrays; integers are zeros, for they may be indices, and random ones read out of bounds."""
    drawn = []
    for seed, (dtype, shape) in enumerate(arguments):
        if np.dtype(dtype).kind == "f":
            drawn.append(np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype))
        else:
            drawn.append(np.zeros(shape, dtype))
    return drawn
