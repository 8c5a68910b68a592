"""Lanes: copies on streams of their own, and several calls between them at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from vulkan_blob import GROUP
from vulkan_tensors import ScaleAndAdd, address, download, empty, upload, vulkan_device

from tvmbuild.package.runtime.library import call
from tvmbuild.package.runtime.shared_memory import view_array
from tvmbuild.package.runtime.tensors import allocate_like, host_array

pytestmark = pytest.mark.vulkan


def host_tensor(like: Any) -> Any:
    return allocate_like(like, tvm_ffi.device("cpu", 0))


class Lane:
    """A lane for calls of `x * scale + 1`; with ``known``, its values are in memory that the device copies from."""

    def __init__(self, count: int, compute: ScaleAndAdd, *, known: bool = False) -> None:
        self.compute, self.stream = compute, call("runtime.Device_StreamCreate", vulkan_device())
        self.x, self.ones = empty(count), upload(np.ones(count, "float32"))
        self.known = host_array([count], "float32", vulkan_device()) if known else None

    def start(self, values: np.ndarray, scale: float) -> Callable[[], np.ndarray]:
        if self.known is not None:
            self.known[...] = values
            values = self.known
        call("tvmbuild_vulkan.copy_in", self.stream, tvm_ffi.from_dlpack(values), self.x)
        out = empty(values.size)
        for _ in range(20):  # more than are in the first part that is submitted
            self.compute(self.x, self.ones, out, scale)
        there = host_tensor(out)
        view_array(there)[...] = -1
        call("tvmbuild_vulkan.copy_out", self.stream, out, there)

        def finish() -> np.ndarray:
            call("runtime.Device_StreamSync", vulkan_device(), self.stream)
            assert out is not None  # the kernels write to it until here
            return view_array(there)

        return finish

    def close(self) -> None:
        call("runtime.Device_StreamFree", vulkan_device(), self.stream)


@pytest.mark.parametrize("count", [2 * GROUP, 1 << 18])
@pytest.mark.parametrize("known", [False, True])
def test_calls_in_flight_have_their_own_outputs(count: int, known: bool) -> None:
    compute, random = ScaleAndAdd(), np.random.default_rng(0)
    lanes = [Lane(count, compute, known=known) for _ in range(3)]
    waiting: deque[tuple[np.ndarray, Callable[[], np.ndarray]]] = deque()

    def check() -> None:
        want, finish = waiting.popleft()
        np.testing.assert_array_equal(finish(), want)

    for turn in range(30):
        values = random.random(count, np.float32)
        scale = float(turn)
        waiting.append((values * np.float32(scale) + 1, lanes[turn % 3].start(values, scale)))
        if len(waiting) == len(lanes):
            check()
    while waiting:
        check()
    for lane in lanes:
        lane.close()


@pytest.mark.parametrize("known", [False, True])
def test_another_thread_finishes_what_one_has_started(known: bool) -> None:
    compute = ScaleAndAdd()
    values = np.arange(1 << 16, dtype=np.float32)

    def run(number: int) -> float:
        lanes = [Lane(values.size, compute, known=known) for _ in range(2)]
        worst = 0.0
        with ThreadPoolExecutor(1) as other:
            for turn in range(20):
                started = [lane.start(values + turn, number + place) for place, lane in enumerate(lanes)]
                for place, finish in enumerate(started):
                    got = other.submit(finish).result(60)
                    worst = max(worst, float(np.abs(got - ((values + turn) * (number + place) + 1)).max()))
        for lane in lanes:
            lane.close()
        return worst

    with ThreadPoolExecutor(6) as pool:
        assert max(pool.map(run, range(12))) == 0


def test_outputs_are_delivered_whatever_comes_next_on_the_stream() -> None:
    """Two copies out before the stream is waited for, one to an address, and a copy in between them."""
    stream = call("runtime.Device_StreamCreate", vulkan_device())
    first, second = upload(np.full(GROUP, 1, np.float32)), upload(np.full(GROUP, 2, np.float32))
    here, there = host_tensor(first), np.zeros(GROUP, np.float32)
    call("tvmbuild_vulkan.copy_out", stream, first, here)
    call("tvmbuild_vulkan.copy_in", stream, tvm_ffi.from_dlpack(np.full(GROUP, 3, np.float32)), second)
    call("tvmbuild_vulkan.copy_out", stream, second, there.ctypes.data_as(address(first).__class__))
    call("runtime.Device_StreamSync", vulkan_device(), stream)
    assert set(view_array(here)) == {1}
    assert set(there) == {3}
    call("tvmbuild_vulkan.copy_out", stream, first, here)
    for number in range(4, 8):  # the stream is waited for while copies in are on it
        call("tvmbuild_vulkan.copy_in", stream, tvm_ffi.from_dlpack(np.full(GROUP, number, np.float32)), second)
        call("runtime.Device_StreamSync", vulkan_device(), stream)
        assert set(download(second)) == {number}
    call("runtime.Device_StreamFree", vulkan_device(), stream)
    assert set(download(first)) == {1}


def test_more_bytes_than_staging_memory_has() -> None:
    stream = call("runtime.Device_StreamCreate", vulkan_device())
    values = [np.random.default_rng(seed).random(5 << 20, np.float32) for seed in range(2)]
    tensors = [empty(each.size) for each in values]
    for each, tensor in zip(values, tensors, strict=True):
        call("tvmbuild_vulkan.copy_in", stream, tvm_ffi.from_dlpack(each), tensor)
    here = [host_tensor(each) for each in tensors]
    call("tvmbuild_vulkan.copy_out", stream, tensors[0], here[0], tensors[1], here[1])
    call("runtime.Device_StreamSync", vulkan_device(), stream)
    for each, tensor in zip(values, here, strict=True):
        np.testing.assert_array_equal(view_array(tensor), each)
    call("runtime.Device_StreamFree", vulkan_device(), stream)


def test_arguments_that_make_no_sense() -> None:
    stream = call("runtime.Device_StreamCreate", vulkan_device())
    there, small = upload(np.ones(GROUP, np.float32)), upload(np.ones(8, np.float32))
    here = host_tensor(there)

    def refuse(function: str, *arguments: Any) -> None:
        with pytest.raises(RuntimeError, match="Vulkan: "):
            call(f"tvmbuild_vulkan.{function}", *arguments)

    for wrong in ((stream,), (stream, here), ("a", here, there), (stream, here, 1), (stream, here, small)):
        refuse("copy_in", *wrong)
    refuse("copy_in", stream, address(there), there)
    refuse("copy_out", stream, here, there)
    refuse("copy_out", 0, there, here)
    call("runtime.Device_StreamFree", vulkan_device(), stream)
