"""A value that lists what a machine and its installation of TVM can build, link and run. The planner reads it."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import EXTRAS, Extra

TOOLS = (
    "apache-tvm",
    "apache-tvm-ffi",
    "onnx",
    "onnxsim",
    "onnxruntime",
    "openvino",
    "nncf",
    "ziglang",
    "xgboost",
    "xgboost-cpu",
    "nvidia-cuda-nvrtc-cu11",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-cuda-nvrtc",
    *(name for extra in EXTRAS for name in extra.distributions),
)


@dataclass(frozen=True)
class Capabilities:
    """The abilities of one machine and its installation of TVM.

    An empty tuple or None means that the machine lacks the ability, except in ``vulkan_missing`` and
    ``vulkan_refusal``, which name obstacles.
    """

    codegens: tuple[str, ...] = ()
    """The target kinds (llvm, cuda, vulkan) for which this installation can generate code."""
    runtimes: tuple[str, ...] = ()
    """The target kinds for which this installation has a device runtime."""
    devices: tuple[str, ...] = ()
    """The target kinds for which a device of this machine answered. llvm is always among them."""
    vulkan_backend: str | None = None
    """The origin of Vulkan's code generator and runtime: `tvmbuild`, or `tvm` if TVM was built with them."""
    vulkan_devices: tuple[str, ...] = ()
    """The names of the devices that the Vulkan driver lists, whether or not TVM can use them."""
    vulkan_missing: str | None = None
    """The first missing part of the Vulkan driver: `loader`, `driver` or `device`. None if a device answers."""
    vulkan_refusal: str | None = None
    """The reason why Vulkan is not used although a device answers, or None.

    It is a setting that disables tvmbuild's runtime, or the reason why that runtime accepts none of the devices.
    """
    nvcc: str | None = None
    """The version of the CUDA compiler nvcc. None means that it is not installed."""
    nvrtc: str | None = None
    """The versions of NVRTC, from the oldest to the newest: `11.8, 12.9`. None means that none is installed."""
    nvrtc_archs: FrozenMap[str, str] = FrozenMap()
    """The version of each NVRTC that loads here → the architectures that it compiles for: `sm_50 sm_52`."""
    llvm: str | None = None
    machine: str = ""
    """The machine as `platform.machine()` names it: x86_64, aarch64 …"""
    cores: int = 0
    """The number of cores that this process may use, or 0 if nobody has counted them."""
    host_cpu: str = ""
    """LLVM's name of this machine's CPU, for example znver4."""
    cpu_features: tuple[str, ...] = ()
    """LLVM's names of this CPU's instruction sets."""
    runnable_cpus: tuple[str, ...] = ()
    """The CPUs, by LLVM's mcpu names, whose code runs here because this CPU has all their instruction sets."""
    versions: FrozenMap[str, str] = FrozenMap()
    """The version of each installed tool of TOOLS, by the name of its distribution."""
    linkers: FrozenMap[str, str] = FrozenMap()
    """The version of each compiler that exists here and that a target names as its linker, by its command."""
    emulators: tuple[str, ...] = ()
    """The architectures of the emulated boards that exist on this machine."""

    def find_missing(self, extra: Extra) -> str | None:
        """Return the first distribution of the extra that is not installed, or None if all are installed."""
        return next((name for name in extra.distributions if self.version(name) is None), None)

    def version(self, distribution: str) -> str | None:
        """Return the installed version of the distribution, or None if it is not installed."""
        return self.versions.get(distribution)


def installed_version(distribution: str) -> str | None:
    """Return the version in the distribution's metadata, without importing it, or None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
