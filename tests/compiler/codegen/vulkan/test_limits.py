"""If a target lacks a feature, the build of the kernel fails with the kernel's name and the remedy."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import tirx as script
from vulkan_kernels import generate, lavapipe, write_kernel

from tvmbuild.compiler.codegen.vulkan.tree import read_dtype
from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler


def copy(dtype: str, count: int = 2) -> tvm.IRModule:
    """Return a module that adds up all buffers except the last into the last one."""

    def body(*given: Any) -> None:
        *inputs, output, block = given
        script.buffer_store(output, reduce(add, (each[block] for each in inputs)), [block])

    return write_kernel([((4,), dtype)] * count, [("blockIdx.x", 4)], body)


@pytest.mark.parametrize(
    ("dtype", "attribute"),
    [
        ("float16", "supports_16bit_buffer"),
        ("float16", "supports_float16"),
        ("int8", "supports_8bit_buffer"),
        ("bool", "supports_8bit_buffer"),
        ("int16", "supports_16bit_buffer"),
        ("int64", "supports_int64"),
        ("float64", "supports_float64"),
    ],
)
def test_a_type_that_devices_lack_is_told_with_the_kernel_and_the_remedy(dtype: str, attribute: str) -> None:
    assert generate(copy(dtype))
    with pytest.raises(TvmbuildError) as caught:
        generate(copy(dtype), lavapipe(**{attribute: False}))
    assert caught.value.message == f"the kernel main_kernel needs what the target's devices lack: {attribute}"
    assert caught.value.hint == f"say `{attribute}: true` where they have it, or change the model's types"


def test_64_bit_indices_that_fit_in_32_need_no_64_bit_integers() -> None:
    def body(x: Any, y: Any, block: Any) -> None:
        index = tirx.Cast("int64", block) * tirx.const(3, "int64") // tirx.const(2, "int64")
        script.buffer_store(y, x[index], [tirx.Cast("int64", block)])

    mod = write_kernel([((16,), "float32")] * 2, [("blockIdx.x", 10)], body)
    assert generate(mod, lavapipe(supports_int64=False))


def test_more_buffers_than_a_device_takes() -> None:
    assert generate(copy("float32", 32))
    with pytest.raises(TvmbuildError, match="the kernel main_kernel has 33 buffers; the target allows 32") as caught:
        generate(copy("float32", 33))
    assert "max_per_stage_descriptor_storage_buffer: 33" in str(caught.value.hint)


def test_more_buffers_than_the_runtime_takes() -> None:
    locked = lavapipe(max_per_stage_descriptor_storage_buffer=1 << 20)
    assert generate(copy("float32", 64), locked)
    with pytest.raises(TvmbuildError, match="main_kernel has 65 buffers; the Vulkan runtime takes 64"):
        generate(copy("float32", 65), locked)


def test_more_threads_than_a_device_takes() -> None:
    def body(y: Any, thread: Any) -> None:
        script.buffer_store(y, 1.0, [thread])

    mod = write_kernel([((512,), "float32")], [("threadIdx.x", 512)], body)
    with pytest.raises(TvmbuildError, match="512 threads in a block; the target allows 256"):
        generate(mod, lavapipe(max_threads_per_block=256))


def test_more_shared_memory_than_a_device_has() -> None:
    def body(y: Any, thread: Any) -> None:
        line = script.alloc_shared((16384,), "float32")
        script.buffer_store(line, 1.0, [thread * 260])
        script.buffer_store(y, line[(tirx.const(63) - thread) * 260], [thread])

    mod = write_kernel([((64,), "float32")], [("threadIdx.x", 64)], body)
    with pytest.raises(TvmbuildError, match="65524 bytes of shared memory; the target allows 32768"):
        generate(mod)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        (lambda x: tirx.call_pure_extern("float32", "lgammaf", x), "the function lgamma of float32"),
        (lambda x: tirx.call_intrin("float32", "tirx.atomic_add", x, x), "atomic_add"),
    ],
)
def test_what_has_no_code_is_named(expression: Any, told: str) -> None:
    def body(x: Any, y: Any, block: Any) -> None:
        script.buffer_store(y, expression(x[block]), [block])

    with pytest.raises(Exception, match=told):
        generate(write_kernel([((4,), "float32")] * 2, [("blockIdx.x", 4)], body))


def test_values_of_types_that_have_no_code_are_named() -> None:
    with pytest.raises(NotImplementedError, match="values of type int4"):
        read_dtype("int4x2")
