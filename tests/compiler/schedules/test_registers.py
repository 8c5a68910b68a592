"""The rules keep sums in registers, whatever else LLVM keeps there."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from spilled_sums import count_sums
from tvm import te, topi

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.tasks import normalised

pytestmark = pytest.mark.compiler


def write_depthwise(size: int, kernel: int, stride: int) -> Any:
    data, weights = te.placeholder((1, size, size, 96), name="x"), te.placeholder((kernel, kernel, 96, 1), name="w")
    return te.create_prim_func([data, weights, topi.nn.depthwise_conv2d_nhwc(data, weights, stride, 0, 1)])


def write_pointwise(size: int, inputs: int, outputs: int) -> Any:
    data, weights = te.placeholder((1, size, size, inputs), name="x"), te.placeholder((1, 1, inputs, outputs), name="w")
    return te.create_prim_func([data, weights, topi.nn.conv2d_nhwc(data, weights, 1, 0, 1)])


def describe(cpu: str) -> tvm.target.Target:
    return tvm_target("llvm", FrozenMap({"mcpu": cpu, "mtriple": "x86_64-linux-gnu", "num-cores": 1}), FrozenMap())


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("size", "kernel", "stride"), [(58, 3, 1), (113, 3, 2), (30, 3, 1)])
def test_windows_share_what_they_read(size: int, kernel: int, stride: int, cpu: str) -> None:
    """With AVX-512, 28 sums of a row, and its pixels, took twice as long as 14."""
    sums, written = count_sums(normalised(write_depthwise(size, kernel, stride)), describe(cpu))
    assert sums >= 7 * kernel**2
    assert written <= sums // 4


@pytest.mark.parametrize(
    ("cpu", "inputs", "outputs"), [("x86-64-v3", 64, 384), ("znver4", 256, 256), ("x86-64-v4", 256, 256)]
)
def test_products_leave_registers_for_what_they_multiply_by(cpu: str, inputs: int, outputs: int) -> None:
    """Sums in 12 of AVX2's 16 registers took half as long again as in 8; in 28 of a Zen 4's, twice as long as in 14."""
    sums, written = count_sums(normalised(write_pointwise(14, inputs, outputs)), describe(cpu))
    assert sums >= 8
    assert written <= sums // 8
