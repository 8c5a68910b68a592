"""Kernels: the decorations of arguments that are written or only read, and elements that loops keep in registers."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm.script.ir_builder import tirx as builder
from vulkan_kernels import build, write_kernel

from tvmbuild.compiler.codegen.vulkan import generator
from tvmbuild.compiler.codegen.vulkan.kernel import Kernel, generate_kernel
from tvmbuild.compiler.codegen.vulkan.opcodes import Decoration, Op

pytestmark = pytest.mark.compiler
SHAPE = ((64, 9), "float32")
SUMS = ((64,), "float32")
THREADS = [("blockIdx.x", 4), ("threadIdx.x", 16)]


def make(monkeypatch: pytest.MonkeyPatch, mod: tvm.IRModule) -> Kernel:
    """Return the module's only kernel."""
    kernels: list[Kernel] = []

    def generate(function: Any, target: Any) -> Kernel:
        kernels.append(generate_kernel(function, target))
        return kernels[-1]

    monkeypatch.setattr(generator, "generate_kernel", generate)
    build(mod)
    (kernel,) = kernels
    return kernel


def count_decorations(kernel: Kernel, decoration: Decoration) -> int:
    """Return the number of times that the decoration occurs."""
    words, position, found = kernel.words, 5, 0
    while position < len(words):
        found += words[position] & 0xFFFF == Op.DECORATE and words[position + 2] == decoration
        position += words[position] >> 16
    return found


def copy(x: Any, y: Any, block: Any, thread: Any) -> None:
    with builder.If(thread < 7), builder.Then():
        builder.buffer_store(y, x[block * 16 + thread, 0], [block * 16 + thread])


def add_up(x: Any, y: Any, block: Any, thread: Any) -> None:
    builder.buffer_store(y, 0.0, [block * 16 + thread])
    with builder.serial(0, 9) as k:
        builder.buffer_store(y, y[block * 16 + thread] + x[block * 16 + thread, k], [block * 16 + thread])


def add_neighbours(x: Any, y: Any, block: Any, thread: Any) -> None:
    with builder.serial(0, 9) as k:
        builder.buffer_store(y, y[thread] + x[block * 16 + thread, k], [block * 16 + thread])


def test_only_what_is_not_written_is_said_to_be_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make(monkeypatch, write_kernel([SHAPE, SUMS], THREADS, copy))
    assert kernel.read_only == (True, False)
    assert count_decorations(kernel, Decoration.NON_WRITABLE) == 1
    assert count_decorations(kernel, Decoration.RESTRICT) == 2


def test_a_sum_is_kept_in_a_register(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make(monkeypatch, write_kernel([SHAPE, SUMS], THREADS, add_up))
    assert kernel.read_only == (True, False)
    assert count_decorations(kernel, Decoration.NON_WRITABLE) == 1


def test_nothing_is_promised_of_memory_that_is_written_and_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make(monkeypatch, write_kernel([SHAPE, SUMS], THREADS, add_neighbours))
    assert kernel.read_only == (True, False)
    assert count_decorations(kernel, Decoration.NON_WRITABLE) == 0
    assert count_decorations(kernel, Decoration.RESTRICT) == 0
