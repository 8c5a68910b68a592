"""The attributes of Vulkan targets in tests."""

from __future__ import annotations

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.targets.vulkan_families import FAMILIES

HOST: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
LEAST = {**FAMILIES["intel-iris-xe"], "max_threads_per_block": 256, "max_shared_memory_per_block": 16384}
"""The smallest device that targets.yaml accepts."""
