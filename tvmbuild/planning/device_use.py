"""Whether a target's device can be used from a machine, and what that takes. Pure."""

from __future__ import annotations

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.specs import Attributes, TargetSpec
from tvmbuild.base.steps import TuneStep
from tvmbuild.devices.kind import Code
from tvmbuild.devices.table import device_kind


def explain_device(kind: str, cpu: Attributes, device: DeviceSpec, capabilities: Capabilities) -> str | None:
    """Return why packages of this kind cannot run on the device from here, or None."""
    return device_kind(device).explain(device, Code(kind, cpu), capabilities)


def may_measure(options: TuneStep, capabilities: Capabilities) -> bool:
    """Say whether candidates can be timed: the target's device is here and runs its code."""
    if not options.device.is_timed:
        return False
    return explain_device(options.kind, options.attributes, options.device, capabilities) is None


def list_device_needs(target: TargetSpec, host_cpu: str, threads: int) -> dict[str, int]:
    """Return what a step that runs on the target's device takes of a worker.

    `device: local` means a CPU called ``measured_on``; where the target does not say, one like this machine's.
    """
    cpu = target.measured_on or host_cpu
    return device_kind(target.device).list_needs(target.device, target.kind, cpu, threads)
