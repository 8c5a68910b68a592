"""The times of kernels by the device's own clock, and the descriptions of devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tvm_ffi
from vulkan_blob import GROUP
from vulkan_tensors import ScaleAndAdd, download, empty, upload, vulkan_device

from tvmbuild.package.runtime.library import call

pytestmark = pytest.mark.vulkan


def test_kernels_are_timed_and_computed() -> None:
    compute = ScaleAndAdd()
    count = 1000 * GROUP
    ones, total = upload(np.ones(count, "float32")), upload(np.zeros(count, "float32"))
    call("tvmbuild_vulkan.profile_start")
    for turn in range(50):
        assert call("tvmbuild_vulkan.profile_count") == turn
        compute(total, ones, total)
    call("runtime.TVMTensorCopyFromTo", total, ones)
    rows = json.loads(call("tvmbuild_vulkan.profile_stop"))
    assert [row["name"] for row in rows] == ["scale_and_add"] * 50 + ["copy"]
    assert all(row["us"] > 0 for row in rows[:-1])
    assert rows[-1]["us"] >= 0
    assert np.array_equal(download(total), np.full(count, 50, "float32"))
    compute(total, ones, total)
    assert np.array_equal(download(total), np.full(count, 100, "float32"))


def test_a_device_without_timestamps_says_so() -> None:
    program = """
from tvmbuild.package.runtime.library import call
from tvmbuild.package.runtime.vulkan.plugin import load_plugin
from tvmbuild.package.runtime.vulkan.timestamps import has_timestamps
load_plugin()
print(has_timestamps(0))
call("tvmbuild_vulkan.profile_start")
"""
    environment = {**os.environ, "TVMBUILD_VULKAN_WITHOUT": "timestamps"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "False\n")
    assert done.stderr.strip().endswith("has no timestamps")


def test_devices_are_described() -> None:
    devices = json.loads(call("tvmbuild_vulkan.devices"))
    assert devices[0]["type"] in {"discrete", "integrated", "virtual", "cpu", "other"}
    assert devices[0]["limits"]["max_threads_per_block"] >= 128
    assert all(name.startswith(("shader", "storageBuffer")) for name in devices[0]["features"])
    kind = vulkan_device().dlpack_device_type()
    name, threads, warp, total, free = (call("runtime.GetDeviceAttr", kind, 0, which) for which in (5, 1, 2, 14, 15))
    assert name == devices[0]["name"]
    assert threads == devices[0]["limits"]["max_threads_per_block"]
    assert warp == 1
    assert 0 < free <= total
    assert call("runtime.GetDeviceAttr", kind, len(devices), 0) == 0


@pytest.mark.compiler
def test_a_target_is_read_from_the_device() -> None:
    import tvm

    target = tvm.target.Target({"kind": "vulkan", "from_device": 0})
    (device, *_) = json.loads(call("tvmbuild_vulkan.devices"))
    assert target.attrs["device_name"] == device["name"]
    assert bool(target.attrs["supports_float16"]) == ("shaderFloat16" in device["features"])
    assert int(target.attrs["max_shared_memory_per_block"]) == device["limits"]["max_shared_memory_per_block"]
    assert tvm.device("vulkan", 0).exist
    assert tvm_ffi.get_global_func("device_api.vulkan")() is not None
    assert empty(4).shape[0] == 4
