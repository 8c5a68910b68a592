"""Drivers that fail, are absent, or run out of memory: a message in words, and the next call is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from children import run_child
from vulkan_shim import LOADER, shim_environment

pytestmark = pytest.mark.vulkan

REASON = "from vulkan_child import *\nprint(catch(describe_devices))"
TWICE = """
from vulkan_child import *
def infer():
    compute, a, out = ScaleAndAdd(), upload(np.ones(64, "float32")), empty(64)
    compute(a, a, out, 2.0)
    print(download(out).sum())
print(catch(infer))
infer()
"""


def test_a_loader_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / LOADER).touch()
    told = run_child(REASON, {**shim_environment(), "LD_LIBRARY_PATH": str(tmp_path)})
    assert told.startswith(f"Vulkan: the loader is not installed ({tmp_path / LOADER}: file too short")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"fail": "vkCreateInstance:-9"}, "no instance can be made (no driver is compatible): is a driver installed?"),
        ({"fail": "vkEnumeratePhysicalDevices:-3"}, "no devices can be listed (initialisation failed)"),
        ({"devices": ""}, "the driver has no device; may this user read /dev/dri (group render)?"),
        ({"hide": "vkGetInstanceProcAddr,vkCreateInstance"}, "the loader has no vkCreateInstance"),
        ({"hide": "vkGetPhysicalDeviceFeatures2"}, "the driver has no vkGetPhysicalDeviceFeatures2"),
    ],
)
def test_a_machine_without_devices(options: dict[str, str], reason: str) -> None:
    assert run_child(REASON, shim_environment(**options)) == f"Vulkan: {reason}"


@pytest.mark.parametrize(
    ("fail", "message"),
    [
        ("vkCreateDevice:-3@1", "Vulkan: Arc cannot be used (initialisation failed)"),
        ("vkCreateCommandPool:-1@1", "Vulkan: out of memory on Arc: it could not create a command pool"),
        ("vkCreateComputePipelines:-1000012000@1", "Vulkan: Arc could not compile kernel scale_and_add (code -100001"),
        ("vkCreateShaderModule:-2@1", "Vulkan: out of memory on Arc: it could not compile kernel scale_and_add"),
        ("vkAllocateMemory:-2@1", "Vulkan: out of memory on Arc: asked for 4 MiB, "),
        ("vkAllocateMemory:-10@1", "Vulkan: Arc has no room for one more allocation; it allows "),
        ("vkMapMemory:-5@1", "Vulkan: Arc could not map memory (memory cannot be mapped)"),
        ("vkQueueSubmit:-1@1", "Vulkan: out of memory on Arc: it could not submit work (out of host memory)"),
        ("vkEndCommandBuffer:-2@1", "Vulkan: out of memory on Arc: it could not record (out of device memory)"),
    ],
)
def test_a_call_that_fails_once(fail: str, message: str) -> None:
    first, second = run_child(TWICE, shim_environment(devices="Arc:integrated", fail=fail)).splitlines()
    assert first.startswith(message)
    assert second == "192.0"


def test_a_driver_without_a_pipeline_cache() -> None:
    told = run_child(TWICE, shim_environment(fail="vkCreatePipelineCache:-1"))
    assert told.split() == ["192.0", "None", "192.0"]


@pytest.mark.parametrize("result", [2, -1, -2])
def test_fences_that_cannot_be_waited_for_are_tried_again(result: int) -> None:
    slow = shim_environment(fail=f"vkGetFenceStatus:1,vkWaitForFences:{result}@1-7")
    assert run_child(TWICE, slow).split() == ["192.0", "None", "192.0"]


FUNCTIONS = (
    *("CreateBuffer", "AllocateMemory", "BindBufferMemory", "CreateDescriptorSetLayout", "CreatePipelineLayout"),
    *("CreateShaderModule", "CreateComputePipelines", "AllocateCommandBuffers", "BeginCommandBuffer"),
    *("EndCommandBuffer", "CreateFence", "QueueSubmit", "CreateQueryPool", "GetQueryPoolResults"),
)
UNIFIED, WITHOUT_PUSHING = ("MapMemory",), ("CreateDescriptorPool", "AllocateDescriptorSets")
ANY_FAILURE = """
from vulkan_child import *
def infer(turn):
    compute = ScaleAndAdd()
    a, out = upload(np.full(1 << 17, turn, "float32")), empty(1 << 17)
    for _ in range(20):
        compute(a, a, out, 2.0)
    assert (download(out) == 3 * turn).all(), turn
def infer_and_profile(turn):
    infer(turn)
    call("tvmbuild_vulkan.profile_start")
    try: infer(-turn)
    finally: call("tvmbuild_vulkan.profile_stop")
told = [catch(lambda: infer_and_profile(turn)) for turn in range(40)]
assert not any(told[30:]), told
assert all(each is None or "out of memory on Arc" in each for each in told[1:]), told
print(len(set(told)))
"""


@pytest.mark.parametrize("hide", ["", "VK_KHR_push_descriptor"])
@pytest.mark.parametrize("kind", ["integrated", "discrete"])
def test_whatever_has_no_memory_no_number_is_wrong(kind: str, hide: str) -> None:
    names = FUNCTIONS + (UNIFIED if kind == "integrated" else ()) + (WITHOUT_PUSHING if hide else ())
    fail = ",".join(["vkCreateDevice:-3@1", "vkCreateCommandPool:-1@1", *(f"vk{name}:-2@2" for name in names)])
    told = run_child(ANY_FAILURE, shim_environment(devices=f"Arc:{kind}", fail=fail, hide=hide))
    assert int(told) >= 13  # different messages; some failures come together


def test_what_was_given_up_is_not_read() -> None:
    code = """
from vulkan_child import *
compute, ones, out = ScaleAndAdd(), upload(np.ones(64, "float32")), upload(np.zeros(64, "float32"))
scratch = upload(np.ones(64, "float32"))
compute(ones, scratch, out)
del scratch
gc.collect()
print(catch(lambda: download(out)))
print(catch(lambda: compute(out, ones, ones)))
print(catch(lambda: call("runtime.TVMTensorCopyFromTo", out, ones)))
print(download(ones).sum())
compute(ones, ones, out)
print(download(out).sum())
"""
    told = run_child(code, shim_environment(devices="Arc:integrated", fail="vkQueueSubmit:-1@1")).splitlines()
    reason = "Vulkan: out of memory on Arc: it could not submit work (out of host memory)"
    stale = f"Vulkan: Arc has not computed what is read here, because of an earlier failure: {reason}"
    assert told == [stale] * 3 + ["64.0", "128.0"]


CANNOT = "the Vulkan device 0 cannot be used: Vulkan: "
NONE = "the package needs a vulkan device, and this machine has none that answers: "
FULL = "end what else uses the device's memory, or take a smaller batch or `precision: fp16`"
ANOTHER = "update its driver; TVMBUILD_VULKAN_DEVICE chooses another device"


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"fail": "vkCreateDevice:-3"}, f"{CANNOT}Arc cannot be used (initialisation failed)", ANOTHER),
        (
            {"fail": "vkAllocateMemory:-1@2", "devices": "Arc:discrete"},
            f"{CANNOT}out of memory on Arc: asked for 1 MiB for copies",
            FULL,
        ),
        ({"set": "apiVersion=4194304"}, f"{NONE}Arc has only Vulkan 1.0, and 1.1 is needed", None),
        ({"hide": "vkEnumerateInstanceVersion"}, f"{NONE}the loader is of Vulkan 1.0, and 1.1 is needed", None),
    ],
)
def test_who_opens_a_device_is_told_why_not(options: dict[str, str], message: str, hint: str | None) -> None:
    code = """
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.host import find_device
try: find_device("vulkan")
except TvmbuildError as error: print(error.message, error.hint, sep="\\n")
"""
    told = run_child(code, shim_environment(**{"devices": "Arc:integrated", **options}))
    assert told == f"{message}\n{hint}"


def test_nothing_but_words_is_printed() -> None:
    code = "from vulkan_child import *\nprint(catch(lambda: upload(np.ones(64, 'float32'))))"
    environment = shim_environment(fail="vkAllocateMemory:-2")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
