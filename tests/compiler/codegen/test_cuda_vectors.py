"""Vectors that TVM's CUDA code cannot express: conditions other than comparisons, and repeated bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import te, tirx

from tvmbuild.compiler.codegen.cubin import compile_source, find_source
from tvmbuild.compiler.codegen.generators import use_generators

pytestmark = pytest.mark.compiler
CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "a comparison": lambda value: value > 0,
    "both of two": lambda value: tirx.And(value > 0, value < 3),
    "none": lambda value: tirx.Not(value > 0),
}


def compile_vectors(target: tvm.target.Target, output: te.Tensor, *inputs: te.Tensor) -> bytes:
    """Return the machine code of a kernel that computes an output of two axes in vectors along the last one."""
    schedule = tvm.s_tir.Schedule(te.create_prim_func([*inputs, output]))
    row, column = schedule.get_loops(schedule.get_sblock(output.op.name))
    schedule.bind(row, "threadIdx.x")
    schedule.vectorize(column)
    with use_generators(target):
        source = find_source(tvm.compile(schedule.mod, target).mod)
    assert source is not None
    return compile_source(source, target)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int64"])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("width", [1, 4])
def test_a_condition_of_each_row_or_element(gpu: tvm.target.Target, width: int, condition: str, dtype: str) -> None:
    data, mask = te.placeholder((64, 4), dtype, "data"), te.placeholder((64, width), "float32", "mask")
    is_true = CONDITIONS[condition]
    made = te.compute(
        (64, 4), lambda i, j: tirx.Select(is_true(mask[i, j % width]), data[i, j], data[i, 0]), name="made"
    )
    assert compile_vectors(gpu, made, data, mask)


def test_a_mask_of_each_row(gpu: tvm.target.Target) -> None:
    data, mask = te.placeholder((64, 4), "float32", "data"), te.placeholder((64, 1), "bool", "mask")
    made = te.compute((64, 4), lambda i, j: tirx.Select(mask[i, 0], data[i, j], data[i, 0]), name="made")
    assert compile_vectors(gpu, made, data, mask)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_byte_of_each_row(gpu: tvm.target.Target, dtype: str) -> None:
    data, more = te.placeholder((64, 4), dtype, "data"), te.placeholder((64, 1), dtype, "more")
    made = te.compute((64, 4), lambda i, j: tirx.max(data[i, j], more[i, 0]), name="made")
    assert compile_vectors(gpu, made, data, more)
