"""The same tests on another path through the runtime, and with the layer that checks every call of Vulkan.

The device here may share memory with the CPU and have push descriptors; other devices have neither.
"""

from __future__ import annotations

import pytest
from vulkan_reruns import NEEDS_LAYER, run_checked_tests, run_tests

pytestmark = pytest.mark.vulkan


@pytest.mark.parametrize("without", ["unified_memory", "push_descriptors", "unified_memory,push_descriptors"])
def test_what_another_device_lacks(without: str) -> None:
    run_tests("lanes", "memory", "launch", "threads", TVMBUILD_VULKAN_WITHOUT=without)


@NEEDS_LAYER
@pytest.mark.parametrize("without", ["", "unified_memory,push_descriptors"])
def test_no_call_is_wrong(without: str) -> None:
    run_checked_tests("lanes", "memory", "launch", "threads", "profile", TVMBUILD_VULKAN_WITHOUT=without)
