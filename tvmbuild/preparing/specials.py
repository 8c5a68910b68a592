"""Special inputs, for models that tell them apart: infinities, NaN, zeros of both signs, denormals and extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvmbuild.base.specs import Tolerance
from tvmbuild.preparing.compare import Arrays, compare
from tvmbuild.preparing.reference import Reference

_TELLING = frozenset({"IsInf", "IsNaN"})
"""Operators that exist to handle infinities and NaN; nobody relies on the results of other models for these numbers."""
_SUMMING = ("Attention", "Conv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN", "Reduce", "Softmax")
"""The prefixes of operators whose sums of such numbers depend on the order: ONNX promises nothing for them."""
_ONE_IN = 8
"""One element in this many is replaced."""


def asks_for_specials(proto: Any) -> bool:
    """Return whether the model tells special numbers from others and uses them only in defined ways."""
    operators = {node.op_type for node in proto.graph.node}
    sums = any(name.startswith(_SUMMING) or "Pool" in name or "Norm" in name for name in operators)
    return bool(operators & _TELLING) and not sums


def insert_specials(inputs: Arrays, seed: int) -> dict[str, np.ndarray]:
    """Return the inputs with some elements of each replaced by special numbers of its type, all kinds in turn."""
    random = np.random.RandomState(seed)
    return {name: _insert(random, array) for name, array in inputs.items()}


def find_special_problem(reference: Reference, compute: Callable[[Arrays], Arrays], allowed: Tolerance) -> str | None:
    """Return the first fault of the outputs for the reference's special inputs; None if it has none."""
    specials = reference.specials
    return None if specials is None else compare(compute(specials.inputs), specials.outputs, allowed).problem


def _insert(random: np.random.RandomState, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "f" or array.size == 0:
        return array  # an integer may be an index, and extremes would lie outside
    limits = np.finfo(array.dtype)
    tiny = limits.smallest_subnormal
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, limits.max, limits.min]
    count = min(array.size, max(len(values), array.size // _ONE_IN))
    result = array.flatten()
    result[random.permutation(array.size)[:count]] = np.resize(np.array(values, dtype=array.dtype), count)
    return result.reshape(array.shape)
