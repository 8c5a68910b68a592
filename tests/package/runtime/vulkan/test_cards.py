"""Cards: their memory is out of the CPU's reach, so all data is copied; and a heap that is full before the CPU's."""

from __future__ import annotations

import pytest
from children import run_child
from vulkan_reruns import NEEDS_LAYER, run_checked_tests, run_tests
from vulkan_shim import ONE_CARD, shim_environment

pytestmark = pytest.mark.vulkan


def test_everything_works_on_a_card() -> None:
    run_tests("memory", "launch", "threads", "profile", **shim_environment(devices=ONE_CARD, set="heap=2147483648"))


@NEEDS_LAYER
def test_no_call_is_wrong_on_a_card() -> None:
    card = shim_environment(devices=ONE_CARD, set="heap=2147483648")
    run_checked_tests("memory", "launch", "threads", "profile", **card)


def test_the_card_is_what_the_shim_says() -> None:
    code = """
from vulkan_child import *
(device,) = describe_devices()
print(device["name"], device["type"], device["unified_memory"], *memory_of_device())
"""
    told = run_child(code, shim_environment(devices=ONE_CARD, set="heap=100663296"))
    assert told == f"RTX 4090 discrete False {96 << 20} {96 << 20}"


@pytest.mark.parametrize("hide", ["", "VK_EXT_memory_budget"])
def test_a_full_card_is_told_and_what_is_there_computes_on(hide: str) -> None:
    code = """
from vulkan_child import *
kept = []
print(catch(lambda: [kept.append(empty(4 << 20)) for _ in range(9)]), len(kept))
total = upload(np.ones(4 << 20, "float32"), kept[0])
ScaleAndAdd().function(address(total), address(total), address(kept[1]), 2.0, 1000)
print((download(kept[1])[: 1000 * GROUP] == 3).all())
kept.clear()
gc.collect()
print(empty(16 << 20).shape[0])
"""
    told = run_child(code, shim_environment(devices=ONE_CARD, set="heap=100663296", hide=hide)).splitlines()
    message = "Vulkan: out of memory on RTX 4090: asked for 16 MiB, 0 MiB are free of 96 MiB"
    assert told == [f"{message} 6", "True", f"{16 << 20}"]


def test_no_memory_for_copies_is_told_and_the_next_one_is_made() -> None:
    code = """
from vulkan_child import *
out = empty(64)
print(catch(lambda: upload(np.ones(64, "float32"), out)))
upload(np.ones(64, "float32"), out)
print(download(out).sum())
"""
    told = run_child(code, shim_environment(devices=ONE_CARD, fail="vkAllocateMemory:-1@2"))
    assert told.splitlines() == ["Vulkan: out of memory on RTX 4090: asked for 1 MiB for copies", "64.0"]


def test_one_allocation_that_is_larger_than_the_driver_takes() -> None:
    code = "from vulkan_child import *\nprint(catch(lambda: empty(4 << 20)))\nprint(catch(lambda: empty(2 << 20)))"
    card = shim_environment(devices=ONE_CARD, set="heap=100663296,maxMemoryAllocationSize=8388608")
    message = "Vulkan: out of memory on RTX 4090: asked for 16 MiB, and one allocation may have 8 MiB"
    assert run_child(code, card).splitlines() == [message, "None"]


@pytest.mark.parametrize(
    ("accelerated", "hidden", "told"), [(0, "", "False"), (1, "", "True"), (1, "shaderIntegerDotProduct", "False")]
)
def test_dot_products_are_a_target_s_where_the_card_has_an_instruction_for_them(
    accelerated: int, hidden: str, told: str
) -> None:
    code = """
from tvmbuild.devices.local.describe import describe_gpu
print(describe_gpu("vulkan", 0)["supports_integer_dot_product"])
"""
    properties = f"integerDotProduct4x8BitPackedSignedAccelerated={accelerated}"
    assert run_child(code, shim_environment(devices=ONE_CARD, hide=hidden, set=properties)) == told
