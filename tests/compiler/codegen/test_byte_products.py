"""Dot products of the four bytes of two words: results on the CPU and on lavapipe, and the instruction for a card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from cuda_sources import write_source
from tvm import s_tir, te, tirx
from vulkan_devices import HOST
from vulkan_kernels import build, explain_invalid, generate, lavapipe, run

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen import cubin as cuda
from tvmbuild.compiler.codegen.byte_products import multiply_bytes, register_byte_products
from tvmbuild.compiler.machine.target import multiplies_bytes, tvm_target
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
COUNT = 64


def draw() -> np.ndarray:
    """Return words of random bytes, and words with extremes in all places."""
    extremes = np.repeat(np.array([-128, 127], np.int8), 4).view(np.int32)
    return np.concatenate([extremes, np.random.RandomState(0).randint(-(1 << 31), 1 << 31, COUNT - 2).astype(np.int32)])


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    first, second = (np.ascontiguousarray(each).view(np.int8).reshape(-1, 4).astype(np.int64) for each in (a, b))
    return np.asarray((first * second).sum(axis=1), np.int32)


def write(*, bound: bool) -> tvm.IRModule:
    a, b = (te.placeholder((COUNT,), "int32", name) for name in "ab")
    c = te.compute((COUNT,), lambda i: multiply_bytes(a[i], b[COUNT - 1 - i]), "c")
    sch = s_tir.Schedule(te.create_prim_func([a, b, c]))
    if bound:
        block, thread = sch.split(sch.get_loops(sch.get_sblock("c"))[0], [None, 16])
        sch.bind(block, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
    return sch.mod


def test_cpus_take_the_words_apart() -> None:
    register_byte_products()
    a, b, c = draw(), draw()[::-1].copy(), np.zeros(COUNT, np.int32)
    arrays = [tvm.runtime.tensor(each) for each in (a, b, c)]
    tirx.build(write(bound=False), target="llvm")["main"](*arrays)
    np.testing.assert_array_equal(arrays[2].numpy(), multiply(a, b[::-1]))


@pytest.mark.vulkan
def test_vulkan_has_an_instruction(tmp_path: Path) -> None:
    mod, target = write(bound=True), lavapipe(supports_integer_dot_product=True)
    (kernel,) = generate(mod, target)
    assert explain_invalid(kernel, tmp_path) == ""
    assert has_instruction(kernel.words, 4450)
    a, b = draw(), draw()[::-1].copy()
    *_, got = run(build(mod, target), a, b, np.zeros(COUNT, np.int32))
    np.testing.assert_array_equal(got, multiply(a, b[::-1]))


def has_instruction(words: tuple[int, ...], opcode: int) -> bool:
    at = 5
    while at < len(words):
        if words[at] & 0xFFFF == opcode:
            return True
        at += words[at] >> 16
    return False


def test_a_vulkan_device_without_it_is_told() -> None:
    with pytest.raises(TvmbuildError, match="what the target's devices lack: supports_integer_dot_product"):
        generate(write(bound=True), lavapipe())


@pytest.mark.parametrize("arch", ["sm_61", "sm_90"])
def test_cards_have_an_instruction(arch: str) -> None:
    register_byte_products()
    target = card(arch)
    source = write_source(write(bound=True), target)
    assert "__dp4a(" in source
    if arch != "sm_61":  # today's CUDA compiler begins with sm_75
        assert cuda.compile_source(source, target)


@pytest.mark.parametrize(
    ("target", "has"),
    [
        (lambda: card("sm_60"), False),
        (lambda: card("sm_61"), True),
        (lambda: card("sm_90a"), True),
        (lavapipe, False),
        (lambda: lavapipe(supports_integer_dot_product=False), False),
        (lambda: lavapipe(supports_integer_dot_product=True), True),
        (lambda: tvm_target("llvm", HOST, FrozenMap()), False),
    ],
)
def test_which_targets_have_it(target: Any, *, has: bool) -> None:
    assert multiplies_bytes(target()) is has


def card(arch: str) -> tvm.target.Target:
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
    return tvm_target("cuda", FrozenMap({"arch": arch, **limits}), HOST)
