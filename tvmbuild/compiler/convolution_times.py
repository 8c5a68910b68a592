"""The choice of a convolution's algorithm from the times of the Tasks that compute it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.ir.prim_funcs import has_block
from tvmbuild.compiler.kernels.winograd.transforms import PRODUCTS
from tvmbuild.compiler.machine.limits import USUAL_CPU, CpuLimits
from tvmbuild.compiler.pipeline import Lowered
from tvmbuild.compiler.tasks import normalised, task_key

GAIN = 0.97
"""Winograd's summed time divided by the direct time must be below this: it rounds worse, so it must gain something."""


def find_tasks(lowered: Lowered) -> dict[str, tuple[str, ...]]:
    """Return, by signature, the keys of the Tasks that compute each convolution with a choice of algorithm.

    A key is repeated for each call of its Task. A convolution has one Task, or three if Winograd's algorithm computes
    it in three functions: the transform of the input, the products, and the inverse transform.
    """
    calls = operator_calls(lowered.mod, "relax.call_tir")
    bindings = [binding for block in lowered.mod["main"].body.blocks for binding in block.bindings]
    made = {binding.var: binding.value for binding in bindings}
    found: dict[str, tuple[str, ...]] = {}
    for each in lowered.convolutions:
        anchor = next(call for call in calls if _takes(call, each.weights))
        chain = [anchor]
        if has_block(lowered.mod[anchor.args[0]], PRODUCTS):
            before = made[anchor.args[1].fields[0]]
            result = next(binding.var for binding in bindings if binding.value.same_as(anchor))
            after = next(call for call in calls if any(result.same_as(argument) for argument in call.args[1].fields))
            chain = [before, anchor, after]
        keys = tuple(task_key(normalised(lowered.mod[call.args[0]])) for call in chain)
        signature = each.convolution.signature
        found[signature] = found.get(signature, ()) + keys
    return found


def time_reading(lowered: Lowered, limits: CpuLimits = USUAL_CPU) -> dict[str, float]:
    """Return, by signature, the seconds needed to read the weights of these convolutions from memory.

    A candidate is timed many times in a row, so that its weights are in a cache. A model whose weights do not fit in
    the caches reads them from memory, and Winograd's weights are up to four times as large as direct ones.
    """
    found: dict[str, float] = {}
    for each in lowered.convolutions:
        signature, size = each.convolution.signature, 4 * math.prod(each.weights.shape)
        found[signature] = found.get(signature, 0.0) + size / limits.reading
    return found


def sum_times(
    tasks: Mapping[str, Mapping[str, tuple[str, ...]]], seconds: Mapping[str, float], signatures: Iterable[str]
) -> dict[str, dict[str, float]]:
    """Return, by signature, algorithm → seconds for each algorithm whose Tasks all have a time.

    ``tasks`` is algorithm → signature → Task keys, as `find_tasks` gives them; ``seconds`` is by Task key.
    """
    return {
        signature: {
            algorithm: sum(seconds[key] for key in by_signature[signature])
            for algorithm, by_signature in tasks.items()
            if all(key in seconds for key in by_signature[signature])
        }
        for signature in signatures
    }


def fastest(times: Mapping[str, float]) -> str | None:
    """Return the name of the algorithm to use, or None if the direct algorithm has no time.

    ``times`` is algorithm → seconds. Another algorithm must take less than `GAIN` times the direct algorithm's time.
    """
    if "direct" not in times:
        return None
    best = min(times, key=lambda algorithm: (times[algorithm], algorithm))
    return best if times[best] < GAIN * times["direct"] else "direct"


def _takes(call: relax.Call, weights: tvm.runtime.Tensor) -> bool:
    return any(
        isinstance(argument, tvm.ir.GenericConst) and argument.value.same_as(weights)
        for argument in call.args[1].fields
    )
