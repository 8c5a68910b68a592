"""Kernels launched as host code does, and command buffers that are resubmitted when they recur."""

from __future__ import annotations

import ctypes
import gc
from itertools import pairwise

import numpy as np
import pytest
from vulkan_blob import GROUP, Kernel, load_module, write_blob
from vulkan_tensors import ScaleAndAdd, address, download, empty, upload

pytestmark = pytest.mark.vulkan

COUNT = 4 * GROUP


@pytest.fixture(scope="module")
def compute() -> ScaleAndAdd:
    return ScaleAndAdd()


def draw(seed: int, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype("float32")


def test_a_kernel_computes(compute: ScaleAndAdd) -> None:
    a, b, out = upload(draw(1)), upload(draw(2)), empty(COUNT)
    compute(a, b, out, 2.5)
    np.testing.assert_allclose(download(out), draw(1) * np.float32(2.5) + draw(2), rtol=1e-5, atol=1e-6)


def test_a_list_that_comes_again_computes_with_other_inputs(compute: ScaleAndAdd) -> None:
    a, b, middle, out = upload(draw(1)), upload(draw(2)), empty(COUNT), empty(COUNT)
    for seed in range(6):
        upload(draw(seed), a)
        compute(a, b, middle)
        compute(middle, a, out)
        np.testing.assert_allclose(download(out), 2 * draw(seed) + draw(2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("launches", [1, 15, 16, 17, 47, 48, 49, 700, 1500])
def test_every_launch_counts_however_they_are_submitted(compute: ScaleAndAdd, launches: int) -> None:
    ones = upload(np.ones(COUNT, "float32"))
    for _ in range(3):
        total = upload(np.zeros(COUNT, "float32"))
        for _ in range(launches):
            compute(total, ones, total)
        assert np.array_equal(download(total), np.full(COUNT, launches, "float32"))


def test_scalars_and_groups_are_part_of_what_comes_again(compute: ScaleAndAdd) -> None:
    a, b = upload(np.ones(COUNT, "float32")), upload(np.zeros(COUNT, "float32"))
    out = upload(np.zeros(COUNT, "float32"))
    for scale in (1.0, 2.0, 3.0, 1.0):
        compute(a, b, out, scale)
        assert np.array_equal(download(out), np.full(COUNT, scale, "float32"))
    compute.function(address(a), address(b), address(out), 9.0, 1)
    assert np.array_equal(download(out), np.repeat(np.array([9, 1, 1, 1], "float32"), GROUP))


def test_memory_that_takes_the_place_of_freed_memory_is_another(compute: ScaleAndAdd) -> None:
    a = upload(draw(1))
    places = set()
    for seed in range(20):
        b, out = upload(draw(seed)), empty(COUNT)
        places.add(b.data_ptr())
        compute(a, b, out)
        np.testing.assert_allclose(download(out), draw(1) + draw(seed), rtol=1e-5, atol=1e-6)
        del b, out
        gc.collect()
    assert len(places) < 20


def test_memory_that_is_freed_while_kernels_wait_for_it(compute: ScaleAndAdd) -> None:
    out = empty(COUNT)
    for seed in range(10):
        a, b = upload(draw(seed)), upload(draw(seed + 1))
        compute(a, b, out)
        del a, b
        gc.collect()
        np.testing.assert_allclose(download(out), draw(seed) + draw(seed + 1), rtol=1e-5, atol=1e-6)


def test_a_module_that_goes_while_its_kernels_wait() -> None:
    a, b, out = upload(draw(1)), upload(draw(2)), empty(COUNT)
    for _ in range(5):
        ScaleAndAdd()(a, b, out)
        gc.collect()
    np.testing.assert_allclose(download(out), draw(1) + draw(2), rtol=1e-5, atol=1e-6)


def test_a_function_keeps_its_module() -> None:
    function = load_module(write_blob(Kernel())).get_function("scale_and_add")
    gc.collect()
    a, out = upload(draw(1)), empty(COUNT)
    function(address(a), address(a), address(out), 1.0, COUNT // GROUP)
    np.testing.assert_allclose(download(out), 2 * draw(1), rtol=1e-5)


def test_pointers_into_memory(compute: ScaleAndAdd) -> None:
    step = 4 * 64 * GROUP
    whole = upload(np.arange(3 * 64 * GROUP, dtype="float32"))
    compute.function(address(whole), address(whole, step), address(whole, 2 * step), 1.0, 64)
    first, second, third = np.split(download(whole), 3)
    assert np.array_equal(third, first + second)


def test_more_lists_than_are_kept(compute: ScaleAndAdd) -> None:
    tensors = [upload(draw(seed)) for seed in range(50)]
    for _ in range(2):
        for a, b in pairwise(tensors):
            out = empty(COUNT)
            compute(a, b, out)
            np.testing.assert_allclose(download(out), download(a) + download(b), rtol=1e-5, atol=1e-6)


def test_no_groups_are_no_work(compute: ScaleAndAdd) -> None:
    a = upload(draw(1))
    compute.function(address(a), address(a), address(a), 1.0, 0)
    assert np.array_equal(download(a), draw(1))


@pytest.mark.parametrize(
    ("groups", "offset", "message"),
    [
        (1 << 20, 0, "is launched with 1048576 groups in x"),
        (-1, 0, "is launched with -1 groups in x"),
        (1, 4, r"buffer 0 .* lies at byte 4 of its memory, and .* needs a multiple of"),
    ],
)
def test_a_launch_that_cannot_be(compute: ScaleAndAdd, groups: int, offset: int, message: str) -> None:
    a = upload(draw(1))
    with pytest.raises(RuntimeError, match=f"^Vulkan: .*{message}"):
        compute.function(address(a, offset), address(a), address(a), 1.0, groups)


def test_arguments_that_cannot_be(compute: ScaleAndAdd) -> None:
    a = upload(draw(1))
    with pytest.raises(RuntimeError, match="buffer 1 of kernel scale_and_add lies in no memory of"):
        compute.function(address(a), ctypes.c_void_p(4096), address(a), 1.0, 1)
    with pytest.raises(RuntimeError, match="takes 5 arguments, not 4"):
        compute.function(address(a), address(a), address(a), 1.0)
    with pytest.raises(RuntimeError, match="argument 0 of kernel scale_and_add is not a pointer"):
        compute.function(7, address(a), address(a), 1.0, 1)
    with pytest.raises(RuntimeError, match="extent 0 of kernel scale_and_add is not a number"):
        compute.function(address(a), address(a), address(a), 1.0, "one")


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Kernel(flags=(1, 1, 0) + (1,) * 61), "has 64 buffers, and"),
        (Kernel(shared=1 << 30), "needs 1073741824 bytes of shared memory"),
        (Kernel(local=(65536, 1, 1)), "has groups of 65536 threads in x"),
        (Kernel(local=(1024, 64, 1)), "has groups of 65536 threads, and"),
    ],
)
def test_a_kernel_that_the_device_cannot_run(kernel: Kernel, message: str) -> None:
    function = load_module(write_blob(kernel)).get_function("scale_and_add")
    a = upload(draw(1))
    with pytest.raises(RuntimeError, match=f"^Vulkan: kernel scale_and_add {message}"):
        function(*(address(a),) * len(kernel.flags), 1.0, 1)
