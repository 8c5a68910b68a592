"""What the tuner's worker processes do: build one candidate, time one candidate.

Workers stay alive between batches; a crash or a time-out costs one candidate.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import ziglang

from tvmbuild.processes import die_with_parent

_INTRINSICS = "tvm.s_tir.tensor_intrin"
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


def skip_tensor_intrinsics() -> None:
    """Keep TVM from importing its tensor intrinsics, which costs 15 s of CPU in every process.

    The plain llvm rules tensorise nothing. https://github.com/apache/tvm `s_tir/tensor_intrin/__init__.py`
    """
    sys.modules.setdefault(_INTRINSICS, types.ModuleType(_INTRINSICS))


def start_worker(cores: Sequence[int]) -> None:
    """Initialise a worker process that may use those ``cores`` only."""
    die_with_parent()
    # Ctrl-C reaches the whole process group; the tuner decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, cores)
    skip_tensor_intrinsics()


def build_candidate(mod: Any, target: Any, library: str, threads: str) -> str:
    """Compile one scheduled module into the shared library at that path; return the path.

    ``threads`` is the object file of the thread pool that packages have.
    """
    import tvm  # noqa: PLC0415  (after start_worker)
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: PLC0415

    from tvmbuild.compiler.fast_math import use_fast_math  # noqa: PLC0415

    use_fast_math()
    mod = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)

    def link(output: str, objects: list[str], **_options: Any) -> None:
        zig = Path(ziglang.__file__).parent / "zig"
        subprocess.run(
            [str(zig), "ld.lld", "-shared", "-o", output, *objects, threads], check=True, capture_output=True
        )

    link.output_format = "so"  # type: ignore[attr-defined]  # export_library asks for it
    tvm.driver.build(mod, target=target).export_library(library, fcompile=link)
    return library


Argument = tuple[str, tuple[int, ...]]
"""(dtype, shape) of one tensor."""


def time_candidate(library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
    """Load the library and time its function on random ``arguments``; seconds, one a sample.

    Samples that disagree are taken once more: something else ran on these cores.
    """
    import tvm  # noqa: PLC0415
    import tvm_ffi  # noqa: PLC0415

    from tvmbuild.package.runtime.library import num_threads  # noqa: PLC0415
    from tvmbuild.package.runtime.pool import use_own_pool  # noqa: PLC0415

    tensors = _make_tensors(arguments)
    # Not runtime.load_module: it keeps every library, and its threads, until the process ends.
    module, device = tvm_ffi.load_module(library, keep_module_alive=False), tvm.cpu(0)
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
def _make_tensors(arguments: tuple[Argument, ...]) -> list[Any]:
    """Return tensors that are filled once for all candidates of a Task: that takes longer than timing one."""
    import tvm  # noqa: PLC0415

    fill = tvm.get_global_func("tvm.contrib.random.random_fill_for_measure")
    tensors = []
    for dtype, shape in arguments:
        tensor = tvm.runtime.empty(shape=shape, dtype=dtype, device=tvm.cpu(0))
        if "int" in dtype:
            # May be indices: random ones read out of bounds.
            tensor.copyfrom(np.zeros(shape, dtype))
        else:
            fill(tensor)
        tensors.append(tensor)
    return tensors
