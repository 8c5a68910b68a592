"""The environment variable for the number of threads with which a stage's process runs kernels."""

from __future__ import annotations

from tvmbuild.base.specs import TargetSpec
from tvmbuild.devices.table import device_kind
from tvmbuild.targets.table import target_kind


def list_thread_variables(target: TargetSpec, threads: int) -> dict[str, str]:
    """Return the variable that sets the number of threads.

    Return an empty dict for a GPU target whose packages are only built here.
    """
    if target_kind(target.kind).on_gpu and not device_kind(target.device).runs:
        return {}
    return {"TVM_NUM_THREADS": str(threads)}
