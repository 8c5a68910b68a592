"""What a machine and its installation of TVM can build, link and run: a value for the planner."""

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
    """What can be done here. Empty tuples and None mean: it cannot."""

    codegens: tuple[str, ...] = ()
    """Kinds that this TVM generates code for: llvm, cuda, vulkan."""
    runtimes: tuple[str, ...] = ()
    """Kinds whose device runtime is in this TVM."""
    devices: tuple[str, ...] = ()
    """Kinds of which a device answered; llvm always does."""
    vulkan_backend: str | None = None
    """Whose code generator and runtime Vulkan has: tvmbuild's own, or tvm's, where TVM was built with it."""
    vulkan_devices: tuple[str, ...] = ()
    """Names of the devices that Vulkan's driver finds, whatever TVM can do."""
    vulkan_missing: str | None = None
    """What of the driver is missing: loader, driver, device; None: a device answers."""
    vulkan_refusal: str | None = None
    """What else stands against it: a setting that leaves tvmbuild's own out, or why its runtime takes no device."""
    nvcc: str | None = None
    nvrtc: str | None = None
    """Versions of the CUDA compilers."""
    llvm: str | None = None
    machine: str = ""
    """platform.machine(): x86_64, aarch64."""
    cores: int = 0
    """Cores that this process may use; 0: not asked."""
    host_cpu: str = ""
    """LLVM's name of this CPU."""
    cpu_features: tuple[str, ...] = ()
    """LLVM's names of the instruction sets that this CPU has."""
    runnable_cpus: tuple[str, ...] = ()
    """LLVM's mcpu names whose instruction sets this CPU has."""
    versions: FrozenMap[str, str] = FrozenMap()
    """Distribution → version of the installed tools."""
    linkers: FrozenMap[str, str] = FrozenMap()
    """Command → version of the named compilers that exist here."""
    emulators: tuple[str, ...] = ()
    """Architectures of the emulated boards that are made."""

    def find_missing(self, extra: Extra) -> str | None:
        """Return what of the extra is not installed; None: all is."""
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
