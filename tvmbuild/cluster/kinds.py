"""Tables of the Dask resources that each kind of target or device needs, and that a worker's machine offers for it.

A kind that is missing from its table has the default resources, so its own code knows nothing of clusters. This module
imports no Dask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, QemuDevice, RpcDevice, SshDevice

Amounts = dict[str, int]
Spec = TypeVar("Spec", bound=DeviceSpec)

TIMING = "device:local"
"""The resource of timing on the worker's own machine, which one step at a time uses."""
COMPILER = "nvcc"
"""The resource of a compiler of CUDA kernels: nvcc or NVRTC."""


class TargetResources:
    """The resources of a kind of target: its code generator, and one device that one step at a time uses."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def list_build_needs(self, *, compiles: bool) -> Amounts:  # noqa: ARG002 - Cuda uses it
        """Return the resources that a build for the kind takes.

        ``compiles`` means that the build makes machine code.
        """
        return {f"build:{self._kind}": 1}

    def list_device_needs(self, _cpu: str, _threads: int, /) -> Amounts:
        """Return the resources that timing takes besides the machine's exclusive use.

        The parameters are LLVM's name of the CPU and the number of threads.
        """
        return {self._kind: 1}

    def list_build_offers(self, machine: Capabilities, steps: int) -> Amounts:
        """Return the resources that the machine offers for builds, for ``steps`` steps at once."""
        return {f"build:{self._kind}": steps} if self._kind in machine.codegens else {}

    def list_device_offers(self, machine: Capabilities) -> Amounts:
        """Return the resources that the machine offers for timing."""
        return {self._kind: 1} if self._kind in machine.devices else {}


class Llvm(TargetResources):
    """The resources of CPU targets, whose devices are cores."""

    def list_device_needs(self, cpu: str, threads: int, /) -> Amounts:
        """Return as many cores of that CPU as there are threads."""
        return {f"cpu:{cpu}": threads}

    def list_device_offers(self, machine: Capabilities) -> Amounts:
        """Return the machine's cores, as a resource that is named after its CPU."""
        return {f"cpu:{machine.host_cpu}": machine.cores}


class Cuda(TargetResources):
    """The resources of CUDA targets, which need a kernel compiler besides TVM."""

    def list_build_needs(self, *, compiles: bool) -> Amounts:
        """Return the default resources, and the kernel compiler if the build makes machine code."""
        return {**super().list_build_needs(compiles=compiles), **({COMPILER: 1} if compiles else {})}

    def list_build_offers(self, machine: Capabilities, steps: int) -> Amounts:
        """Return the default offers, and the kernel compiler if the machine has one."""
        compiler = {COMPILER: steps} if machine.nvcc or machine.nvrtc else {}
        return {**super().list_build_offers(machine, steps), **compiler}


class DeviceResources(Generic[Spec]):
    """The resources of a kind of device: one device that one step at a time uses.

    A worker offers it if it was started with `--has device:KIND`.
    """

    def list_needs(self, spec: Spec, _own: Amounts, /) -> Amounts:
        """Return the resources that a step on the device takes.

        ``own`` are the resources that timing takes on the worker's own machine.
        """
        return {f"device:{spec.kind}": 1}

    def list_offers(self, _machine: Capabilities, /) -> Amounts:
        """Return the resources that a worker on the machine offers by itself, without `--has`."""
        return {}


class Local(DeviceResources[LocalDevice]):
    """The resources of timing on the worker's own machine."""

    def list_needs(self, _spec: LocalDevice, own: Amounts, /) -> Amounts:
        """Return exclusive use of the machine, and its cores or its GPU."""
        return {TIMING: 1, **own}

    def list_offers(self, _machine: Capabilities, /) -> Amounts:
        """Return exclusive use of the machine, for one step at a time."""
        return {TIMING: 1}


class Qemu(DeviceResources[QemuDevice]):
    """The resources of emulated boards."""

    def list_needs(self, spec: QemuDevice, _own: Amounts, /) -> Amounts:
        """Return the resource that a step takes: the emulated board of that architecture."""
        return {f"device:qemu-{spec.arch}": 1}

    def list_offers(self, machine: Capabilities, /) -> Amounts:
        """Return the emulated boards that exist on the machine."""
        return {f"device:qemu-{architecture}": 1 for architecture in machine.emulators}


class Rpc(DeviceResources[RpcDevice]):
    """The resources of boards behind a tracker. A worker offers them if it was started with `--tracker`."""

    def list_needs(self, spec: RpcDevice, _own: Amounts, /) -> Amounts:
        """Return the resource that a step takes: one board with that key."""
        return {f"device:{spec.key}": 1}


class Ssh(DeviceResources[SshDevice]):
    """The resources of boards behind ssh."""

    def list_needs(self, spec: SshDevice, _own: Amounts, /) -> Amounts:
        """Return the resource that a step takes: the board at that address."""
        return {f"device:{spec.host}": 1}


TARGET_ROWS: Mapping[str, type[TargetResources]] = {"llvm": Llvm, "cuda": Cuda}
DEVICE_ROWS: Mapping[str, DeviceResources[Any]] = {"local": Local(), "rpc": Rpc(), "qemu": Qemu(), "ssh": Ssh()}


def target_resources(kind: str) -> TargetResources:
    """Return the resources of this kind of target, or the defaults if the kind has no row."""
    return TARGET_ROWS.get(kind, TargetResources)(kind)


def device_resources(kind: str) -> DeviceResources[Any]:
    """Return the resources of this kind of device, or the defaults if the kind has no row."""
    return DEVICE_ROWS.get(kind, DeviceResources())
