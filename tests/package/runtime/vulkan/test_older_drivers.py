"""Drivers of Vulkan 1.1 with guaranteed features only, and the message if a kernel needs more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from children import run_child
from small_package import ANY_X86, build_package
from vulkan_reruns import NEEDS_LAYER, run_checked_tests, run_tests
from vulkan_shim import shim_environment

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = pytest.mark.vulkan

VULKAN_1_1 = 1 << 22 | 1 << 12
FEATURES = {
    "shaderFloat16": 1,
    "shaderInt8": 2,
    "shaderInt16": 4,
    "shaderInt64": 8,
    "shaderFloat64": 16,
    "storageBuffer8BitAccess": 32,
    "storageBuffer16BitAccess": 64,
    "shaderIntegerDotProduct": 128,
}
EXTENSIONS = (
    *("VK_KHR_push_descriptor", "VK_KHR_8bit_storage", "VK_KHR_shader_float16_int8", "VK_KHR_driver_properties"),
    *("VK_KHR_shader_integer_dot_product", "VK_EXT_memory_budget"),
)
LIMITS = {
    "apiVersion": VULKAN_1_1,
    "maxPerStageDescriptorStorageBuffers": 8,
    "maxStorageBufferRange": 1 << 27,
    "minStorageBufferOffsetAlignment": 256,
    "maxPushConstantsSize": 128,
    "maxComputeSharedMemorySize": 16384,
    "maxComputeWorkGroupInvocations": 256,
    "timestampValidBits": 0,
}


def old_driver(kind: str = "integrated", kept: tuple[str, ...] = (), **limits: int) -> dict[str, str]:
    """Return the environment of a child with such a driver, which still has the ``kept`` features."""
    hidden = [name for name in (*EXTENSIONS, *FEATURES) if name not in kept]
    numbers = ",".join(f"{name}={value}" for name, value in {**LIMITS, **limits}.items())
    return shim_environment(devices=f"HD 520:{kind}", hide=",".join(hidden), set=numbers)


@pytest.mark.parametrize("kind", ["integrated", "discrete"])
def test_everything_else_works(kind: str) -> None:
    run_tests("memory", "launch", "threads", **old_driver(kind, heap=1 << 31))


@NEEDS_LAYER
def test_no_call_is_wrong() -> None:
    run_checked_tests("memory", "launch", "threads", **old_driver("discrete", heap=1 << 31))


def test_the_driver_is_what_the_shim_says() -> None:
    code = """
from vulkan_child import *
(device,) = describe_devices()
print(device["api"], device["push_descriptors"], device["timestamps"], device["driver"], device["features"])
"""
    assert run_child(code, old_driver()) == "1.1.0 0 False unknown []"


def test_extensions_that_were_no_part_of_it_yet_are_used() -> None:
    code = """
from vulkan_child import *
print(*describe_devices()[0]["features"], sep=",")
compute, a, out = ScaleAndAdd(), upload(np.ones(64, "float32")), empty(64)
compute(a, a, out)
print(download(out).sum())
"""
    kept = ("VK_KHR_8bit_storage", "VK_KHR_shader_float16_int8", "VK_KHR_shader_integer_dot_product", *FEATURES)
    assert run_child(code, old_driver(kept=kept)).splitlines() == [",".join(FEATURES), "128.0"]


LAUNCH = """
from vulkan_child import *
a = upload(np.ones({count}, "float32"))
function = load_module(write_blob({kernel})).get_function("scale_and_add")
buffers = len({kernel}.flags)
print(catch(lambda: function(*(address(a, {offset}),) * buffers, 1.0, 1)))
"""


@pytest.mark.parametrize(
    ("kernel", "count", "offset", "message"),
    [
        ("Kernel(flags=(1,) * 8 + (0,))", 64, 0, "kernel scale_and_add has 9 buffers, and HD 520 allows 8"),
        ("Kernel(local=(512, 1, 1))", 64, 0, "kernel scale_and_add has groups of 512 threads, and HD 520 allows 256"),
        (
            "Kernel(shared=16388)",
            64,
            0,
            "kernel scale_and_add needs 16388 bytes of shared memory, and HD 520 has 16384",
        ),
        (
            "Kernel()",
            (1 << 25) + 1024,
            0,
            "buffer 0 of kernel scale_and_add has 134221824 bytes, and a kernel of HD 520 reaches 134217728",
        ),
        (
            "Kernel()",
            1024,
            64,
            "buffer 0 of kernel scale_and_add lies at byte 64 of its memory, and HD 520 needs a multiple of 256",
        ),
    ],
)
def test_a_kernel_that_it_cannot_run(kernel: str, count: int, offset: int, message: str) -> None:
    told = run_child(LAUNCH.format(kernel=kernel, count=count, offset=offset), old_driver())
    assert told == f"Vulkan: {message}"


def test_a_feature_that_it_lacks() -> None:
    code = f"""
from vulkan_child import *
a = upload(np.ones(64, "float32"))
for bits in {list(FEATURES.values())}:
    function = load_module(write_blob(Kernel(features=bits))).get_function("scale_and_add")
    print(catch(lambda: function(address(a), address(a), address(a), 1.0, 1)))
"""
    told = run_child(code, old_driver()).splitlines()
    assert told == [f"Vulkan: HD 520 lacks {name}, which kernel scale_and_add needs" for name in FEATURES]


def test_no_timestamps_are_told() -> None:
    code = "from vulkan_child import *\nprint(catch(lambda: call('tvmbuild_vulkan.profile_start')))"
    assert run_child(code, old_driver()) == "Vulkan: HD 520 has no timestamps"
    without = {**shim_environment(devices="Arc:integrated"), "TVMBUILD_VULKAN_WITHOUT": "timestamps"}
    assert run_child(code, without) == "Vulkan: Arc has no timestamps"


def test_timestamps_that_begin_again_at_0() -> None:
    code = """
from vulkan_child import *
compute, a = ScaleAndAdd(), upload(np.ones(64, "float32"))
call("tvmbuild_vulkan.profile_start")
for _ in range(2000):
    compute(a, a, a, 0.0)
print(call("tvmbuild_vulkan.profile_stop"))
"""
    told = run_child(code, shim_environment(set="timestampValidBits=20"))  # of nanoseconds: after a millisecond
    times = [row["us"] for row in json.loads(told) if row["name"] == "scale_and_add"]
    assert len(times) == 2000
    assert max(times) < 1049


def test_a_package_for_such_drivers(tmp_path: Path, digits: Path) -> None:
    least = {**FAMILIES["intel-iris-xe"], "max_threads_per_block": 256, "max_shared_memory_per_block": 16384}
    lacking = {name: False for name in least if name.endswith(("8bit_buffer", "16bit_buffer", "float16"))}
    attributes = {**least, **lacking, "max_per_stage_descriptor_storage_buffer": 8}
    package = build_package(digits, tmp_path, FrozenMap(sorted(attributes.items())), "vulkan", ANY_X86)
    command = [sys.executable, "-m", "tvmbuild", "run", str(package), "--fill", "ones", "--profile", "--output"]
    found = []
    for name, environment in {
        "here": shim_environment(),
        "old": old_driver(kept=("shaderInt64",)),
        "card": old_driver("discrete", kept=("shaderInt64",)),
    }.items():
        subprocess.run([*command, str(tmp_path / f"{name}.npz")], env=environment, check=True, capture_output=True)
        with np.load(tmp_path / f"{name}.npz") as arrays:
            found.append(next(iter(arrays.values())))
    assert found[0].std() > 0.1
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
