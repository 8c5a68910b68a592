"""Why a step cannot run on this machine, with the remedy. Pure."""

from __future__ import annotations

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.specs import Attributes, TargetSpec
from tvmbuild.base.steps import TuneStep
from tvmbuild.devices.kind import Code
from tvmbuild.devices.table import device_kind
from tvmbuild.targets.table import target_kind


def explain_unavailable(stage: str, target: TargetSpec, capabilities: Capabilities) -> str | None:
    """Return why the stage cannot run for the target here, or None: it can."""
    kind = target_kind(target.kind)
    if target.unresolved is not None:
        return target.unresolved
    if stage in {"tune", "validate"}:
        return kind.explain_codegen(capabilities)
    if stage == "compile":
        return (
            kind.explain_codegen(capabilities)
            or kind.explain_compiler(capabilities)
            or _explain_linker(target.link, capabilities)
        )
    if stage == "benchmark":
        return explain_device(target.kind, target.cpu, target.device, capabilities)
    raise ValueError(f"{stage} is no stage of a cell")


def may_measure(options: TuneStep, capabilities: Capabilities) -> bool:
    """Say whether candidates can be timed: the target's device is here and runs its code."""
    if not options.device.is_timed:
        return False
    return explain_device(options.kind, options.attributes, options.device, capabilities) is None


def explain_device(kind: str, cpu: Attributes, device: DeviceSpec, capabilities: Capabilities) -> str | None:
    """Return why packages of this kind cannot run on the device from here, or None."""
    return device_kind(device).explain(device, Code(kind, cpu), capabilities)


def _explain_linker(link: str, capabilities: Capabilities) -> str | None:
    if link == "auto":
        if capabilities.version("ziglang") is None:
            return "the linker is missing; `pip install ziglang`"
        return None
    if link in capabilities.linkers:
        return None
    return f"the compiler `{link}` is not on PATH; install it, or say `link: auto` for the bundled one"
