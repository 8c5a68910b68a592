"""Every kind of target, for tests that put the same questions to all, and the attributes for this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from small_package import ANY_X86

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.package.runtime.host import find_device
from tvmbuild.package.runtime.library import call
from tvmbuild.targets.vulkan_families import FAMILIES

KINDS = ["llvm", pytest.param("cuda", marks=pytest.mark.cuda), pytest.param("vulkan", marks=pytest.mark.vulkan)]
_CARD = {"max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "thread_warp_size": 32}


def attributes_of(kind: str) -> Attributes:
    """Return the attributes of a target of that kind that runs here."""
    made: Mapping[str, Callable[[], Attributes]] = {
        "llvm": lambda: ANY_X86,
        "cuda": lambda: FrozenMap({"arch": read_arch(), **_CARD}),
        "vulkan": lambda: FrozenMap(sorted(FAMILIES["lavapipe"].items())),
    }
    return made[kind]()


def read_arch() -> str:
    """Return the architecture of this machine's GPU."""
    device = find_device("cuda")
    return "sm_" + str(call("runtime.GetDeviceAttr", device.dlpack_device_type(), 0, 4)).replace(".", "")
