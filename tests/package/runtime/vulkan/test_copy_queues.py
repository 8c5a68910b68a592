"""Cards with queues that only copy: copies on streams run there, beside kernels, in an order by semaphores.

The shim looks at each use of memory, and aborts at one that has no order.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run_child
from vulkan_reruns import NEEDS_LAYER, run_checked_tests, run_tests
from vulkan_shim import ONE_CARD, shim_environment

pytestmark = pytest.mark.vulkan

HEAP = "heap=2147483648"
CALLS = """
from vulkan_child import *
import tvm_ffi
def run(turn):
    compute, ones = ScaleAndAdd(), upload(np.ones(GROUP, "float32"))
    x, out, there = empty(GROUP), empty(GROUP), np.zeros(GROUP, "float32")
    stream = call("runtime.Device_StreamCreate", vulkan_device())
    try:
        call("tvmbuild_vulkan.copy_in", stream, tvm_ffi.from_dlpack(np.full(GROUP, turn, "float32")), x)
        compute(x, ones, out, 2.0)
        call("tvmbuild_vulkan.copy_out", stream, out, there.ctypes.data_as(address(out).__class__))
        call("runtime.Device_StreamSync", vulkan_device(), stream)
    finally:
        call("runtime.Device_StreamFree", vulkan_device(), stream)
    assert set(there) == {2 * turn + 1}, (turn, there)
told = [catch(lambda: run(turn)) for turn in range(12)]
assert not any(told[6:]), told
print(*(each for each in told if each), sep="\\n")
"""


@pytest.mark.parametrize("queues", [1, 2])
@pytest.mark.parametrize("hidden", ["", "VK_KHR_push_descriptor"])
def test_all_work_on_memory_has_an_order(queues: int, hidden: str) -> None:
    card = shim_environment(devices=ONE_CARD, set=f"{HEAP},copy_queues={queues}", hide=hidden)
    run_tests("lanes", "threads", **card)


@NEEDS_LAYER
def test_no_call_is_wrong() -> None:
    run_checked_tests("lanes", **shim_environment(devices=ONE_CARD, set=HEAP))


@pytest.mark.parametrize(
    ("options", "without", "queues"),
    [
        ({}, "", {"0", "1", "2"}),
        ({"set": "copy_queues=1"}, "", {"0", "1"}),
        ({"set": "copy_queues=0"}, "", set()),
        ({"hide": "timelineSemaphore"}, "", set()),
        ({}, "copy_queues", set()),
    ],
)
def test_copies_go_to_the_queues_that_are_there(
    tmp_path: Path, options: dict[str, str], without: str, queues: set[str]
) -> None:
    log = tmp_path / "queues"
    log.touch()
    card = shim_environment(devices=ONE_CARD, log=str(log), **options)
    assert run_child(CALLS, {**card, "TVMBUILD_VULKAN_WITHOUT": without}) == ""
    assert set(log.read_text().split()) == queues


@pytest.mark.parametrize("number", range(1, 8))
def test_work_that_cannot_be_submitted_spoils_no_later_call(number: int) -> None:
    told = run_child(CALLS, shim_environment(devices=ONE_CARD, fail=f"vkQueueSubmit:-2@{number}"))
    assert "out of memory on RTX 4090: it could not submit work" in told


@pytest.mark.parametrize(
    ("name", "number", "what"),
    [("Semaphore", 1, "semaphore"), ("Semaphore", 2, "semaphore"), ("CommandPool", 3, "command pool")],
)
def test_no_memory_for_queues_is_told_and_the_next_call_starts(name: str, number: int, what: str) -> None:
    """The shim aborts if the device that did not start leaves what its queues had."""
    told = run_child(CALLS, shim_environment(devices=ONE_CARD, fail=f"vkCreate{name}:-1@{number}"))
    assert told == f"Vulkan: out of memory on RTX 4090: it could not create a {what} (out of host memory)"
