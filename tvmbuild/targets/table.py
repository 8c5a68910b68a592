"""The kinds of targets that targets.yaml may name, one row each."""

from __future__ import annotations

from tvmbuild.targets.cuda import Cuda
from tvmbuild.targets.kind import TargetKind
from tvmbuild.targets.llvm import Llvm
from tvmbuild.targets.vulkan import Vulkan

TARGETS: dict[str, TargetKind] = {
    "llvm": Llvm(),
    "cuda": Cuda(),
    "vulkan": Vulkan(),
}


def target_kind(name: str) -> TargetKind:
    """Return the kind of that name. Raises ValueError for a name that is not in the table."""
    if name not in TARGETS:
        raise ValueError(f"there is no kind of target {name}")
    return TARGETS[name]
