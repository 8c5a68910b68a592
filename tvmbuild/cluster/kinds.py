"""Tables of the resources that kinds of targets and devices take of a Dask worker, and that its machine offers.

A kind missing from both tables has the defaults, and knows nothing of clusters. Pure; imports no Dask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, QemuDevice, RpcDevice, SshDevice

Amounts = dict[str, int]
Spec = TypeVar("Spec", bound=DeviceSpec)

TIMING = "device:local"
"""The resource of the worker's own machine for timing, used by one step at a time."""
COMPILER = "nvcc"
"""The resource of a compiler of CUDA kernels, nvcc or NVRTC."""


class TargetResources:
    """The resources of a kind of target: its code generator, and one device at a time."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def list_build_needs(self, *, compiles: bool) -> Amounts:  # noqa: ARG002 - as Cuda is asked
        """List the resources that building for the kind takes; ``compiles`` if it goes down to machine code."""
        return {f"build:{self._kind}": 1}

    def list_device_needs(self, _cpu: str, _threads: int, /) -> Amounts:
        """List the resources that timing takes besides having the machine alone; ``cpu`` is LLVM's name."""
        return {self._kind: 1}

    def list_build_offers(self, machine: Capabilities, steps: int) -> Amounts:
        """List the resources that the machine offers for building, for that many steps at once."""
        return {f"build:{self._kind}": steps} if self._kind in machine.codegens else {}

    def list_device_offers(self, machine: Capabilities) -> Amounts:
        """List the resources that the machine offers for timing."""
        return {self._kind: 1} if self._kind in machine.devices else {}


class Llvm(TargetResources):
    """The resources of CPU targets, whose devices are cores."""

    def list_device_needs(self, cpu: str, threads: int, /) -> Amounts:
        """Return as many cores of that CPU as there are threads."""
        return {f"cpu:{cpu}": threads}

    def list_device_offers(self, machine: Capabilities) -> Amounts:
        """Return the machine's cores."""
        return {f"cpu:{machine.host_cpu}": machine.cores}


class Cuda(TargetResources):
    """The resources of CUDA targets, which need a kernel compiler besides TVM."""

    def list_build_needs(self, *, compiles: bool) -> Amounts:
        """Add the kernel compiler."""
        return {**super().list_build_needs(compiles=compiles), **({COMPILER: 1} if compiles else {})}

    def list_build_offers(self, machine: Capabilities, steps: int) -> Amounts:
        """Add the kernel compiler."""
        compiler = {COMPILER: steps} if machine.nvcc or machine.nvrtc else {}
        return {**super().list_build_offers(machine, steps), **compiler}


class DeviceResources(Generic[Spec]):
    """The resources of a kind of device: one at a time, which a worker gets by `--has device:KIND`."""

    def list_needs(self, spec: Spec, _own: Amounts, /) -> Amounts:
        """List the resources that a step on the device takes; ``own`` are those of timing on this worker's machine."""
        return {f"device:{spec.kind}": 1}

    def list_offers(self, _machine: Capabilities, /) -> Amounts:
        """Return the resources that a worker on the machine offers by itself."""
        return {}


class Local(DeviceResources[LocalDevice]):
    """The resources of the worker's own machine."""

    def list_needs(self, _spec: LocalDevice, own: Amounts, /) -> Amounts:
        """Return the machine's exclusive use, and its cores or its GPU."""
        return {TIMING: 1, **own}

    def list_offers(self, _machine: Capabilities, /) -> Amounts:
        """Return the machine's exclusive use, for one step at a time."""
        return {TIMING: 1}


class Qemu(DeviceResources[QemuDevice]):
    """The resources of the emulated boards that are made."""

    def list_needs(self, spec: QemuDevice, _own: Amounts, /) -> Amounts:
        """Return the board of that architecture."""
        return {f"device:qemu-{spec.arch}": 1}

    def list_offers(self, machine: Capabilities, /) -> Amounts:
        """Return the boards that are made."""
        return {f"device:qemu-{architecture}": 1 for architecture in machine.emulators}


class Rpc(DeviceResources[RpcDevice]):
    """The resources of boards behind a tracker, which a worker gets by `--tracker`."""

    def list_needs(self, spec: RpcDevice, _own: Amounts, /) -> Amounts:
        """Return a board with that key."""
        return {f"device:{spec.key}": 1}


class Ssh(DeviceResources[SshDevice]):
    """The resources of boards behind ssh."""

    def list_needs(self, spec: SshDevice, _own: Amounts, /) -> Amounts:
        """Return the board at the address."""
        return {f"device:{spec.host}": 1}


TARGET_ROWS: Mapping[str, type[TargetResources]] = {"llvm": Llvm, "cuda": Cuda}
DEVICE_ROWS: Mapping[str, DeviceResources[Any]] = {"local": Local(), "rpc": Rpc(), "qemu": Qemu(), "ssh": Ssh()}


def target_resources(kind: str) -> TargetResources:
    """Return the resources of a kind of target."""
    return TARGET_ROWS.get(kind, TargetResources)(kind)


def device_resources(kind: str) -> DeviceResources[Any]:
    """Return the resources of a kind of device."""
    return DEVICE_ROWS.get(kind, DeviceResources())
