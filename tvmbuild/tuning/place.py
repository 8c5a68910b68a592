"""Where candidates are timed and built, by the target's kind and its device: what is held, which cores, what times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import tvm

from tvmbuild.devices.candidate_timer import CandidateTimer
from tvmbuild.devices.local.cuda_timer import time_kernel
from tvmbuild.devices.local.gpu_timer import GpuTimer
from tvmbuild.devices.local.vulkan_timer import time_shader
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.rpc.boards import BoardTimer, find_board_class
from tvmbuild.devices.rpc.device import lock_name
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.host import find_device
from tvmbuild.progress import report_progress
from tvmbuild.specs import DeviceSpec, LocalDevice, RpcDevice
from tvmbuild.tuning.cores import Cores, all_cores, share_cores


@contextmanager
def hold(kind: str, device: DeviceSpec) -> Iterator[None]:
    """Hold what is timed on; where that are boards, this machine only builds. A card is held by who times on it."""
    if isinstance(device, LocalDevice) and kind == "cuda":
        with device_lock("local", exclusive=False):
            yield
        return
    if not isinstance(device, RpcDevice):
        with device_lock("local", exclusive=True):
            yield
        return
    with device_lock(lock_name(device), exclusive=True), device_lock("local", exclusive=False):
        yield


def find_cores(kind: str, device: DeviceSpec, threads: int, target: str) -> Cores:
    """Return which of this process's cores time and which build; TvmbuildError, naming the ``target``, with too few."""
    elsewhere = isinstance(device, RpcDevice) or kind == "cuda"
    cores = all_cores() if elsewhere else share_cores(threads)
    if not elsewhere and len(cores.timing) < threads:
        raise TvmbuildError(
            f"{target} has num-cores: {threads}, and this process may use {len(cores.timing)} cores",
            "tune on a machine with as many cores, or correct num-cores in targets.yaml",
        )
    return cores


def make_timer(kind: str, device: DeviceSpec, threads: int, cores: Cores) -> CandidateTimer | None:
    """Return what times where this machine's cores do not."""
    if isinstance(device, RpcDevice):
        return BoardTimer(device, threads)
    if kind == "cuda":
        return GpuTimer("cuda", time_kernel, cores.building)
    # A software driver computes on the cores.
    return GpuTimer("vulkan", time_shader, cores.timing) if kind == "vulkan" else None


def device_class(kind: str, device: DeviceSpec, measured_on: str | None) -> str:
    """Return the class of the device that is measured on.

    That is LLVM's name of this machine's CPU, e.g. `znver4`, or the driver's of its GPU, `h200`; of boards what the
    target calls them (`measured_on`), else LLVM's name of theirs, for which one is asked.
    """
    if isinstance(device, RpcDevice):
        return measured_on or _ask_board(device)
    if kind != "llvm":
        return describe_gpu(kind)
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


@cache
def describe_gpu(kind: str) -> str:
    """Return the driver's name of this machine's first GPU, as a device class: `h200` of NVIDIA H200.

    What stands in brackets is not in it: versions, chips, and that Intel(R) is a mark.
    """
    find_device(kind)
    name = re.sub(r"\([^)]*\)", "", str(tvm.device(kind, 0).device_name))
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join(word for word in words if word != "nvidia")


@cache
def _ask_board(device: RpcDevice) -> str:
    report_progress(f"asking a board {device.key} what it is")
    return find_board_class(device)
