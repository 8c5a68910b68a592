"""Why a step cannot run on this machine, with the remedy. Pure."""

from __future__ import annotations

from tvmbuild.capabilities import Capabilities
from tvmbuild.compiler.nvrtc import INSTALL
from tvmbuild.cpu_features import KNOWN_FEATURES
from tvmbuild.devices.qemu.board import explain_absence
from tvmbuild.devices.ssh.trouble import explain_no_runtime
from tvmbuild.host_cpu import machine_of
from tvmbuild.specs import (
    Attributes,
    DeviceSpec,
    NoDevice,
    QemuDevice,
    RpcDevice,
    SshDevice,
    TargetSpec,
    is_timed,
)
from tvmbuild.steps import TuneStep
from tvmbuild.vulkan import PLUGIN_REMEDY, explain_runtime


def explain_unavailable(stage: str, target: TargetSpec, capabilities: Capabilities) -> str | None:
    """Return why the stage cannot run for the target here, or None: it can."""
    if target.unresolved is not None:
        return target.unresolved
    if stage in {"tune", "validate"}:
        return _explain_codegen(target.kind, capabilities)
    if stage == "compile":
        return (
            _explain_codegen(target.kind, capabilities)
            or _explain_cuda_compiler(target.kind, capabilities)
            or _explain_linker(target.link, capabilities)
        )
    if stage == "benchmark":
        return explain_device(target.kind, target.cpu, target.device, capabilities)
    raise ValueError(f"{stage} is no stage of a cell")


def may_measure(options: TuneStep, capabilities: Capabilities) -> bool:
    """Say whether candidates can be timed: the target's device is here and runs its code."""
    if not is_timed(options.device):
        return False
    return explain_device(options.kind, options.attributes, options.device, capabilities) is None


def explain_device(kind: str, cpu: Attributes, device: DeviceSpec, capabilities: Capabilities) -> str | None:
    """Return why packages of this kind cannot run on the device from here, or None."""
    if isinstance(device, NoDevice):
        return "the target has no device; give it `device: local` on a machine that runs its code"
    if isinstance(device, RpcDevice):
        return None  # whether it answers is seen when it is asked
    if isinstance(device, QemuDevice):
        return _explain_emulator(kind, cpu, device.arch, capabilities)
    if isinstance(device, SshDevice):
        return _explain_ssh(kind, cpu, capabilities)
    if kind != "llvm":
        return _explain_gpu(kind, capabilities)
    return _explain_cpu(cpu, capabilities)


def _explain_codegen(kind: str, capabilities: Capabilities) -> str | None:
    if kind in capabilities.codegens:
        return None
    if kind == "vulkan":
        return f"the installed TVM generates no Vulkan code; {PLUGIN_REMEDY}"
    return f"the installed TVM generates no {kind} code; install a TVM built with it (see `tvmbuild doctor`)"


def _explain_cuda_compiler(kind: str, capabilities: Capabilities) -> str | None:
    if kind != "cuda" or capabilities.nvcc is not None or capabilities.nvrtc is not None:
        return None
    return f"neither nvcc nor NVRTC is here; `{INSTALL}` brings NVRTC, no GPU needed"


def _explain_linker(link: str, capabilities: Capabilities) -> str | None:
    if link == "auto":
        if capabilities.version("ziglang") is None:
            return "the linker is missing; `pip install ziglang`"
        return None
    if link in capabilities.linkers:
        return None
    return f"the compiler `{link}` is not on PATH; install it, or say `link: auto` for the bundled one"


def _explain_gpu(kind: str, capabilities: Capabilities) -> str | None:
    if kind == "vulkan":
        return explain_vulkan(capabilities)
    if kind not in capabilities.runtimes:
        return f"the installed TVM has no {kind} runtime, or its driver is missing; see `tvmbuild doctor`"
    if kind not in capabilities.devices:
        return f"no {kind} device answers on this machine; say `device: none` to build only"
    return None


def explain_vulkan(capabilities: Capabilities) -> str | None:
    """Return what is missing here to run Vulkan code, with the remedy; None: nothing."""
    missing = explain_runtime(capabilities.vulkan_missing, has_runtime="vulkan" in capabilities.runtimes)
    if missing is None and "vulkan" not in capabilities.devices:
        return f"TVM's Vulkan runtime takes no device of {', '.join(capabilities.vulkan_devices)}; update its driver"
    return missing


def _explain_emulator(kind: str, cpu: Attributes, architecture: str, capabilities: Capabilities) -> str | None:
    if kind != "llvm":
        return f"an emulated board runs the code of CPUs, not of {kind}; say `device: none` to build only"
    there = _machine_of(cpu, architecture)
    if there != architecture:
        return f"its code is for {there} and the emulated board is {architecture}; say `device: none` to build only"
    return None if architecture in capabilities.emulators else explain_absence(architecture)


def _explain_ssh(kind: str, cpu: Attributes, capabilities: Capabilities) -> str | None:
    if kind != "llvm":
        return f"a board without Python runs the code of CPUs, not of {kind}; use `device: {{rpc: …}}`"
    return explain_no_runtime(_machine_of(cpu, capabilities.machine))


def _machine_of(cpu: Attributes, default: str) -> str:
    """Return the machine that the attributes' triple names, as platform.machine() calls it."""
    return machine_of(str(cpu.get("mtriple", default)))


def _explain_cpu(cpu: Attributes, capabilities: Capabilities) -> str | None:
    here = machine_of(capabilities.machine)
    there = _machine_of(cpu, here)
    if there != here:
        return f"its code is for {there} and this machine is {here}; say `device: none` to build only"
    cores = cpu.get("num-cores", 1)
    if isinstance(cores, int) and cores > capabilities.cores > 0:
        return f"the target asks for {cores} threads and this process may use {capabilities.cores} cores"
    mcpu = str(cpu.get("mcpu", "generic"))
    if mcpu not in capabilities.runnable_cpus and mcpu != capabilities.host_cpu:
        return f"this CPU ({capabilities.host_cpu}) lacks instructions of {mcpu}; build here, run on one that has them"
    mattr = cpu.get("mattr", ())
    wanted = mattr if isinstance(mattr, tuple) else (mattr,)
    names = [str(name).removeprefix("+") for name in wanted if str(name).startswith("+")]
    missing = [name for name in names if name in KNOWN_FEATURES and name not in capabilities.cpu_features]
    if missing:
        return f"this CPU ({capabilities.host_cpu}) lacks {', '.join(missing)}; build here, run on one that has them"
    return None
