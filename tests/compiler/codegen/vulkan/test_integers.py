"""Drawn integer expressions: the use of bounds never changes a number."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from drawn_integers import DTYPES, Drawn, bounds, expressions
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tvm.script.ir_builder import tirx as script
from vulkan_kernels import build_as_written, run, write_kernel

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
BLOCKS, THREADS, TURNS = 3, 16, 4
COUNT = BLOCKS * THREADS * TURNS
EXAMPLES = int(os.environ.get("DRAWN_INTEGERS", "3"))


def _draw_numbers(dtype: str) -> np.ndarray:
    low, high = bounds(dtype)
    random = np.random.RandomState(len(dtype) * 7 + high.bit_length())
    edges = [low, low + 1, high, high - 1, 0, 1, 2, high // 2, high // 2 + 1]
    small = random.randint(max(low, -50), 50, COUNT // 2)
    wide = np.frombuffer(random.bytes(8 * COUNT), dtype)[:COUNT]
    numbers = np.concatenate([np.array(edges, dtype), small.astype(dtype), wide])[:COUNT]
    return np.asarray(random.permutation(numbers))


INPUTS = {dtype: _draw_numbers(dtype) for dtype in DTYPES}


def check(drawn: list[Drawn]) -> None:
    slots = {dtype: [each for each in drawn if each.dtype == dtype] for dtype in DTYPES}
    used = [dtype for dtype in DTYPES if slots[dtype]]
    sizes = [*(((COUNT,), dtype) for dtype in DTYPES), *(((len(slots[dtype]) * COUNT,), dtype) for dtype in used)]

    def body(*given: Any) -> None:
        inputs, outputs, (block, thread) = given[: len(DTYPES)], given[len(DTYPES) : -2], given[-2:]
        with script.serial(0, TURNS) as turn:
            index = (block * THREADS + thread) * TURNS + turn
            leaves = {"block": block, "thread": thread, "loop": turn}
            leaves |= {dtype: each[index] for dtype, each in zip(DTYPES, inputs, strict=True)}
            for dtype, output in zip(used, outputs, strict=True):
                for slot, each in enumerate(slots[dtype]):
                    script.buffer_store(output, each.write(leaves), [slot * COUNT + index])

    function = build_as_written(write_kernel(sizes, [("blockIdx.x", BLOCKS), ("threadIdx.x", THREADS)], body))
    empty = [np.zeros(*size) for size in sizes[len(DTYPES) :]]
    results = dict(zip(used, run(function, *INPUTS.values(), *empty)[len(DTYPES) :], strict=True))
    for dtype in used:
        for each, got in zip(slots[dtype], results[dtype].reshape(-1, COUNT), strict=True):
            want = [each.compute(_values(index)) for index in range(COUNT)]
            wrong = [index for index in range(COUNT) if int(got[index]) != want[index]]
            assert not wrong, f"{each} at {_values(wrong[0])}: {got[wrong[0]]} instead of {want[wrong[0]]}"


def _values(index: int) -> dict[str, int]:
    place = {"block": index // TURNS // THREADS, "thread": index // TURNS % THREADS, "loop": index % TURNS}
    return place | {dtype: int(each[index]) for dtype, each in INPUTS.items()}


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # shrinking would compile every smaller example
)
@given(st.lists(expressions(), min_size=30, max_size=60))
def test_drawn_expressions_are_right(drawn: list[Drawn]) -> None:
    check(drawn)
