"""Does a scheduled function compute what its Task does? TVM's search makes some, rarely, that do not."""

from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCE = 1e-3
"""Of an output's largest magnitude: sums in another order differ by far less, wrong ones by far more."""


def find_difference(mod: Any, workload: Any, target: Any) -> str | None:
    """Run both on the same random inputs; return how they differ, None when they do not.

    Runs in a worker process. The workload is compiled as it is, without any schedule; weights that the schedule wants
    in another order are put into it on the way. A function that cannot be run raises.
    """
    import tvm  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.fast_math import use_fast_math  # noqa: PLC0415

    use_fast_math()
    inputs = [_draw(parameter, index) for index, parameter in enumerate(workload["main"].params)]
    results = []
    for each in (workload, mod):
        tensors = [tvm.runtime.tensor(value) for value in inputs]
        tvm.compile(each, target=target)["main"](*tensors)
        results.append([tensor.numpy() for tensor in tensors])
    for index, (want, got) in enumerate(zip(*results, strict=True)):
        if want.dtype.kind != "f":
            if not np.array_equal(want, got):
                return f"argument {index} differs in {np.count_nonzero(want != got)} of {want.size} elements"
            continue
        largest = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
        wrong = ~np.isclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * largest, equal_nan=True)
        if wrong.any():
            return f"argument {index} differs in {np.count_nonzero(wrong)} of {want.size} elements"
    return None


def _draw(parameter: Any, seed: int) -> np.ndarray[Any, Any]:
    shape, dtype = tuple(int(extent) for extent in parameter.shape), np.dtype(str(parameter.dtype))
    if dtype.kind != "f":
        return np.zeros(shape, dtype)  # may be indices: random ones read out of bounds
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)
