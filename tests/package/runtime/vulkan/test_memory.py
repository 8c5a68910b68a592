"""Allocations and copies through TVM's own functions."""

from __future__ import annotations

import ctypes
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from children import run_child
from vulkan_shim import ONE_CARD, shim_environment
from vulkan_tensors import download, empty, upload, vulkan_device

from tvmbuild.package.runtime.library import call
from tvmbuild.package.runtime.tensors import to_arrays

pytestmark = pytest.mark.vulkan


@pytest.mark.parametrize("count", [1, 3, 1000, 5_000_001])
def test_what_was_copied_there_comes_back(count: int) -> None:
    values = np.random.default_rng(count).standard_normal(count).astype("float32")
    assert np.array_equal(download(upload(values)), values)


def test_a_copy_within_the_device_follows_what_was_copied_there() -> None:
    values = np.arange(4096, dtype="float32")
    source, target = upload(values), empty(4096)
    call("runtime.TVMTensorCopyFromTo", source, target)
    upload(np.zeros(4096, "float32"), source)
    assert np.array_equal(download(target), values)
    assert not download(source).any()


@pytest.mark.parametrize("counts", [(3, 0, 1000), (1,), (70_000, 1, 2_500_000), (4_000_000, 1_000_001)])
def test_several_come_back_together(counts: tuple[int, ...]) -> None:
    values = [np.random.default_rng(count).standard_normal(count).astype("float32") for count in counts]
    tensors = [upload(each) for each in values]
    for factor in (1, 2):  # the second time the list of copies has occurred before
        for value, tensor in zip(values, tensors, strict=True):
            upload(value * np.float32(factor), tensor)
        for value, array in zip(values, to_arrays(tensors), strict=True):
            assert np.array_equal(array, value * np.float32(factor))


def test_only_tensors_of_a_device_are_copied_together() -> None:
    array = np.zeros(4, "float32")
    host = tvm_ffi.from_dlpack(array)
    with pytest.raises(RuntimeError, match="only tensors of one device"):
        call("tvmbuild_vulkan.copy_to_host", host, array.ctypes.data_as(ctypes.c_void_p))
    with pytest.raises(RuntimeError, match="tensors and addresses"):
        call("tvmbuild_vulkan.copy_to_host", 1, 2)


def test_a_tensor_without_elements() -> None:
    tensor = empty(0)
    assert download(tensor).size == 0
    assert tensor.data_ptr() != empty(0).data_ptr()


def test_memory_is_given_back() -> None:
    heap, size = 64 << 20, 20_000_000
    code = f"""
from vulkan_child import *
for number in range(12):
    upload(np.full({size} // 4, number, "float32"))
    gc.collect()
print(memory_of_device()[1] >= {heap} - {size})
"""
    assert run_child(code, shim_environment(devices=ONE_CARD, set=f"heap={heap}")) == "True"


def test_many_small_ones_come_and_go() -> None:
    drawn = random.Random(1)  # noqa: S311
    kept: dict[int, Any] = {}
    for turn in range(1500):
        kept[drawn.randrange(400)] = (
            turn,
            upload(np.full(drawn.choice([1, 63, 64, 65, 5000, 65_536]), turn, "float32")),
        )
    spans = sorted((tensor.data_ptr(), tensor.data_ptr() + 4 * tensor.shape[0]) for _, tensor in kept.values())
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for turn, tensor in kept.values():
        assert np.array_equal(download(tensor), np.full(tensor.shape[0], turn, "float32"))


@pytest.mark.parametrize("count", [1 << 40, 1 << 60])
def test_too_much_is_told_and_the_process_goes_on(count: int) -> None:
    with pytest.raises(RuntimeError, match=r"^Vulkan: out of memory on .*: asked for \d+ MiB, \d+ MiB are free of"):
        call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((count,)), "uint8", vulkan_device(), None)
    assert download(upload(np.ones(8, "float32"))).all()


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(RuntimeError, match="there is no device 7"):
        call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((1,)), "uint8", vulkan_device(7), None)
