"""The abilities of a machine and its installation of TVM to build, link and run code: a value for the planner."""

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
    "cuda-bindings",
    *(name for extra in EXTRAS for name in extra.distributions),
)


@dataclass(frozen=True)
class Capabilities:
    """The abilities of this machine. An empty tuple or None means that it lacks the ability."""

    codegens: tuple[str, ...] = ()
    """The kinds that this TVM generates code for: llvm, cuda, vulkan."""
    runtimes: tuple[str, ...] = ()
    """The kinds whose device runtime is in this TVM."""
    devices: tuple[str, ...] = ()
    """The kinds that have a device which answered; llvm always has one."""
    vulkan_backend: str | None = None
    """The origin of Vulkan's code generator and runtime: tvmbuild, or tvm if TVM was built with them."""
    vulkan_devices: tuple[str, ...] = ()
    """The names of the devices that Vulkan's driver finds, independent of TVM's abilities."""
    vulkan_missing: str | None = None
    """The missing part of the driver: loader, driver, device. None: a device answers."""
    vulkan_refusal: str | None = None
    """Another obstacle: a setting that disables tvmbuild's runtime, or the reason why that runtime refuses it."""
    nvcc: str | None = None
    nvrtc: str | None = None
    """The versions of the CUDA compilers."""
    llvm: str | None = None
    machine: str = ""
    """platform.machine(): x86_64, aarch64."""
    cores: int = 0
    """The number of cores that this process may use. 0: not asked."""
    host_cpu: str = ""
    """LLVM's name of this CPU."""
    cpu_features: tuple[str, ...] = ()
    """LLVM's names of this CPU's instruction sets."""
    runnable_cpus: tuple[str, ...] = ()
    """LLVM's mcpu names whose instruction sets this CPU has."""
    versions: FrozenMap[str, str] = FrozenMap()
    """Distribution → version of the installed tools."""
    linkers: FrozenMap[str, str] = FrozenMap()
    """Command → version of the named compilers that exist here."""
    emulators: tuple[str, ...] = ()
    """The architectures of the existing emulated boards."""

    def find_missing(self, extra: Extra) -> str | None:
        """Return the first distribution of the extra that is not installed. None: all are."""
        return next((name for name in extra.distributions if self.version(name) is None), None)

    def version(self, distribution: str) -> str | None:
        """Return the installed version, or None."""
        return self.versions.get(distribution)


def installed_version(distribution: str) -> str | None:
    """Return the distribution's version from its metadata, without importing it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
