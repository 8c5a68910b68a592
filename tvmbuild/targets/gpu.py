"""The common part of the target kinds whose kernels run on a GPU."""

from __future__ import annotations

import re
from functools import cache

from tvmbuild.base.attributes import Attributes
from tvmbuild.targets.kind import TargetKind


class Gpu(TargetKind):
    """A target kind whose kernels run on a GPU, beside host code that llvm generates."""

    on_gpu = True
    needs_records = False
    rules = 10

    def find_device_class(self) -> str:
        """Return the name of this machine's first GPU, as `describe_gpu` does."""
        return describe_gpu(self.name)

    def describe(self, attributes: Attributes) -> str:
        """Return the kind and, if the target states one, the architecture: `cuda sm_90`."""
        return f"{self.name} {attributes['arch']}" if attributes.get("arch") else self.name


@cache
def describe_gpu(kind: str) -> str:
    """Return the driver's name of this machine's first GPU as a device class: `h200` for NVIDIA H200.

    The text in brackets is left out: versions, chips, and the trademark in Intel(R).
    """
    import tvm  # noqa: PLC0415 - planning asks this module too

    from tvmbuild.package.runtime.host import find_device  # noqa: PLC0415 - as above

    find_device(kind)
    name = re.sub(r"\([^)]*\)", "", str(tvm.device(kind, 0).device_name))
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join(word for word in words if word != "nvidia")
