"""Functions of worker processes that time a search's candidates and compare their outputs with the expected ones.

They run on the machine whose cores run the candidates.
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
"""The allowed error relative to an output's largest magnitude. Reordered sums err far less, wrong code far more."""
HALF_TOLERANCE = 1e-2
"""The allowed error for float16, which has 3 digits. Each rounding in a chain of fused operators may differ."""
STEADY = 1.1
"""Samples agree if the largest is at most this many times the smallest."""


@dataclass(frozen=True)
class Timing:
    """The parameters for timing a candidate: ``repeat`` samples of at least ``number`` calls and ``min_repeat_ms``."""

    number: int
    repeat: int
    min_repeat_ms: int
    enough_s: float = float("inf")
    """The time of a call, in seconds, above which the candidate cannot win: then only the first sample is taken."""


def start_worker(cores: Sequence[int]) -> None:
    """Initialise this process as a worker: bind it to ``cores``, and let it end when its parent dies."""
    die_with_parent()
    # Ctrl-C reaches the whole process group; the tuner decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, cores)
    skip_tensor_intrinsics()


Argument = tuple[str, tuple[int, ...]]
"""The (dtype, shape) of one tensor."""


def time_candidate(library: str, arguments: tuple[Argument, ...], timing: Timing, kind: str = "cpu") -> list[float]:
    """Load the library and time its function on random ``arguments`` on a device of ``kind``.

    Returns the samples in seconds per call. If they disagree, another program probably used the cores, and as many
    samples are taken once more.
    """
    import tvm  # noqa: PLC0415
    import tvm_ffi  # noqa: PLC0415

    from tvmbuild.package.runtime.library import num_threads  # noqa: PLC0415
    from tvmbuild.package.runtime.thread_pool import Share, use_own_pool  # noqa: PLC0415

    tensors = make_tensors(arguments, kind)
    # runtime.load_module would keep every library, and its threads, until the process ends.
    module, device = tvm_ffi.load_module(library, keep_module_alive=False), tvm.device(kind, 0)
    if kind == "cpu":
        use_own_pool(Path(library), Share(num_threads()))

    def sample(number: int, repeat: int) -> list[float]:
        # With min_repeat_ms TVM would search the number of calls again for each sample.
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
    """Return tensors for ``arguments`` on the device: random floating-point numbers, and zeros for integers.

    They are cached for all candidates of a Task, because filling them takes longer than timing a candidate.
    """
    import tvm  # noqa: PLC0415

    # The function is missing where only the runtime library is installed, as on boards.
    fill = tvm.get_global_func("tvm.contrib.random.random_fill_for_measure", allow_missing=True)
    tensors = []
    for dtype, shape in arguments:
        tensor = tvm.runtime.empty(shape=shape, dtype=dtype, device=tvm.device(device, 0))
        if "int" in dtype:
            # Integers may be indices: random values would read out of bounds.
            tensor.copyfrom(np.zeros(shape, dtype))
        elif fill is None:
            tensor.copyfrom(np.random.default_rng(0).random(shape, np.float32).astype(dtype))
        else:
            fill(tensor)
        tensors.append(tensor)
    return tensors


def compare_libraries(workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
    """Run the functions of both libraries on the same random inputs and return how the outputs of ``library`` differ.

    Returns None if the outputs agree, or if ``workload`` cannot run because only lld linked it. Raises RuntimeError or
    OSError if ``library`` cannot run.
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
    """Run the library's function once on a device of the kind ``device`` and return all arguments after the run."""
    import tvm  # noqa: PLC0415
    import tvm_ffi  # noqa: PLC0415

    module = tvm_ffi.load_module(library, keep_module_alive=False)
    tensors = [tvm.runtime.tensor(value, tvm.device(device, 0)) for value in inputs]
    module["main"](*tensors)
    return [tensor.numpy() for tensor in tensors]


def describe_difference(want: Sequence[np.ndarray[Any, Any]], got: Sequence[np.ndarray[Any, Any]]) -> str | None:
    """Return a phrase about the first argument that differs after a run, or None if all agree within the tolerance.

    ``want`` has the correct arguments, and ``got`` those to check. Floating-point arguments have a tolerance.
    """
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
    """Return an array for each argument: random numbers in [-1, 1) for floating-point types, zeros for all others.

    Integers may be indices, and random indices would read out of bounds.
    """
    drawn = []
    for seed, (dtype, shape) in enumerate(arguments):
        if np.dtype(dtype).kind == "f":
            drawn.append(np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype))
        else:
            drawn.append(np.zeros(shape, dtype))
    return drawn
