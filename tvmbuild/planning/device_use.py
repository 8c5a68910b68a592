"""The check whether a target's device can be used from a machine. Pure."""

from __future__ import annotations

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.steps import TuneStep
from tvmbuild.devices.kind import Code
from tvmbuild.devices.table import device_kind


def explain_device(kind: str, cpu: Attributes, device: DeviceSpec, capabilities: Capabilities) -> str | None:
    """Return why packages of this kind of target cannot run on the device from here, or None if they can.

    ``cpu`` are the attributes of the CPU that calls the code.
    """
    return device_kind(device).explain(device, Code(kind, cpu), capabilities)


def may_measure(options: TuneStep, capabilities: Capabilities) -> bool:
    """Return whether candidates can be timed: the target's device is available from here and runs its code."""
    if not options.device.is_timed:
        return False
    return explain_device(options.kind, options.attributes, options.device, capabilities) is None
