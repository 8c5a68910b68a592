"""The attributes that every GPU of a family has under Vulkan, for targets with `family: intel-iris-xe` and the like.

If drivers differ, the value is the lower one: Mesa's drivers have twice the shared memory of other drivers. A target's
lock has the limits of one device.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tvmbuild.base.attributes import AttributeValue

_COMMON: dict[str, AttributeValue] = {
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 32768,
    # TVM's own runtime reports this value. A subgroup is not a warp, and reductions across one went wrong.
    "thread_warp_size": 1,
    "supports_float16": True,
    "supports_float32": True,
    "supports_int8": True,
    "supports_int16": True,
    "supports_int32": True,
    "supports_int64": True,
    "supports_8bit_buffer": True,
    "supports_16bit_buffer": True,
    "supports_storage_buffer_storage_class": True,
}

FAMILIES: Mapping[str, Mapping[str, AttributeValue]] = MappingProxyType(
    {
        "intel-iris-xe": _COMMON,  # has no 64-bit floats
        "amd-rdna": {**_COMMON, "supports_float64": True},
        "nvidia-rtx": {**_COMMON, "supports_float64": True, "max_shared_memory_per_block": 49152},
        # The limit of Mesa 22.3. Current drivers of the other families allow as many buffers as the runtime does.
        "lavapipe": {**_COMMON, "supports_float64": True, "max_per_stage_descriptor_storage_buffer": 32},
    }
)

_LEAST = {
    "max_threads_per_block": (256, "TVM's default schedules take"),
    "max_shared_memory_per_block": (16384, "every Vulkan device has"),
}


def find_mistakes(data: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (key, fault, expected value) for each impossible attribute of a vulkan target.

    The values in ``data`` have the right types. Its family, if any, is known.
    """
    found = []
    if "family" in data and "from_device" in data:
        found.append(("from_device", "the target names a family too", "one of the two: the lock has every attribute"))
    values = {**FAMILIES.get(data.get("family", ""), {}), **data}
    threads = values.get("max_threads_per_block")
    for key, (least, who) in _LEAST.items():
        if key in data and data[key] < least:
            found.append((key, f"{data[key]} is less than {who}", f"at least {least}"))
    found += [
        (key, f"{data[key]} is more than max_threads_per_block", f"at most {threads}")
        for key in ("thread_warp_size", "max_num_threads")
        if key in data and threads is not None and data[key] > threads
    ]
    if data.get("supports_int64") is False:
        expected = "true; for a GPU without 64-bit integers TVM has no code of a model imported from ONNX"
        found.append(("supports_int64", "a model's indices are int64", expected))
    return found
