"""The target kind of NVIDIA's GPUs: TVM's code generator cuda, and NVRTC or nvcc."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.cuda_versions import JETPACK_4, choose_driver, find_mistake
from tvmbuild.base.files import canonical_json
from tvmbuild.base.finding import Finding
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.nvrtc import INSTALL, explain_install, list_archs, list_versions
from tvmbuild.errors import TvmbuildError
from tvmbuild.targets.gpu import Gpu
from tvmbuild.targets.kind import HasFunction, Mistake, Problem

_OLDER_GLIBC = {f"2.{minor}" for minor in range(28)}
NVIDIA = Path("/proc/driver/nvidia")
_USUAL = 12
"""The major version of the NVRTC that tvmbuild installs."""
_FIRST_ARCH = {"fp16": 53, "bf16": 80, "tf32": 80}
"""The first compute capability with the arithmetic of each precision: 80 means sm_80."""


class Cuda(Gpu):
    """The target kind `cuda`."""

    name = "cuda"
    pinned = ("arch", "max_threads_per_block", "max_shared_memory_per_block", "thread_warp_size")
    frees_cores = True

    def find_mistakes(self, data: Mapping[str, Any]) -> list[Mistake]:
        """Return a mistake if the target's driver, architecture and PTX do not fit together."""
        found = [each for each in (find_mistake(data),) if each is not None]
        if str(data.get("glibc", "")) in _OLDER_GLIBC:
            found.append(("glibc", JETPACK_4, '"2.28" or later'))
        return found

    def explain_precision(self, precision: str, attributes: Attributes) -> Problem | None:
        """Return the fault and the expected value if the architecture lacks the precision's arithmetic, else None."""
        arch = str(attributes.get("arch", ""))
        least = _FIRST_ARCH[precision]
        number = re.match(r"sm_(\d+)", arch)
        if number is None or int(number.group(1)) >= least:
            return None
        return f"{arch} has no {precision} arithmetic, which begins with sm_{least}", "fp32"

    def list_tools(self, attributes: Attributes, capabilities: Capabilities) -> dict[str, str]:
        """Return the version of the compiler of kernels for the target's driver: NVRTC's, or nvcc's without one."""
        nvrtc = _choose_nvrtc(attributes, capabilities)
        if nvrtc is not None:
            return {"nvrtc": nvrtc}
        return {"nvcc": capabilities.nvcc or "absent", "nvrtc": "absent"}

    def explain_compiler(self, attributes: Attributes, capabilities: Capabilities) -> str | None:
        """Return why no compiler of kernels is here for the target's driver and `arch`, with the remedy, or None."""
        driver, nvrtc = choose_driver(attributes), _choose_nvrtc(attributes, capabilities)
        if nvrtc is not None:
            return _explain_arch(str(attributes.get("arch", "")), nvrtc, capabilities)
        if capabilities.nvcc is not None and capabilities.nvcc.startswith(f"{driver[0]}."):
            return None
        install = INSTALL if "driver" not in attributes and driver[0] == _USUAL else explain_install(driver[0])
        return f"neither nvcc nor NVRTC {driver[0]} is here; `{install}` brings NVRTC, no GPU needed"

    def explain_here(self, _cpu: Attributes, capabilities: Capabilities) -> str | None:
        """Return a message about the missing part, the runtime or the card, or None if the code runs here."""
        if self.name not in capabilities.runtimes:
            return "the installed TVM has no cuda runtime, or its driver is missing; see `tvmbuild doctor`"
        if self.name not in capabilities.devices:
            return "no cuda device answers on this machine; say `device: none` to build only"
        return None

    def identify(self) -> dict[str, str] | None:
        """Return the cards' models and the driver's version from the kernel module, or None if it reports none."""
        try:
            driver = (NVIDIA / "version").read_text().splitlines()[0]
            models = [
                next(line for line in path.read_text().splitlines() if line.startswith("Model:"))
                for path in sorted(NVIDIA.glob("gpus/*/information"))
            ]
        except (OSError, IndexError, StopIteration):
            return None
        if not models:
            return None
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        return {"driver": driver, "gpus": canonical_json(models), "visible gpus": visible}

    def prepare(self) -> None:
        """Load tvmbuild's runtime if there is a driver, because `import tvm` would load TVM's."""
        if _has_driver():
            from tvmbuild.package.runtime.host import try_backend  # noqa: PLC0415 - it imports tvm_ffi

            with suppress(TvmbuildError):  # a package that needs it says so; others do not
                try_backend(self.name)

    def has_runtime(self, has: HasFunction) -> bool:
        """Return whether TVM has loaded its runtime, or tvmbuild's own can be used because there is a driver."""
        return super().has_runtime(has) or (_has_driver() and _has_plugin())

    def answers(self) -> bool:
        """Return whether the driver shows a card."""
        from tvmbuild.package.runtime.host import try_backend  # noqa: PLC0415 - it imports tvm_ffi

        try:
            try_backend(self.name)
        except TvmbuildError:
            return False
        return super().answers()

    def probe(self, found: Capabilities) -> Capabilities:
        """Return the capabilities with the versions of the compilers of kernels."""
        return replace(found, nvcc=_nvcc_version(), nvrtc=list_versions(), nvrtc_archs=FrozenMap(list_archs()))

    def check(self, capabilities: Capabilities) -> Finding:
        """Return the doctor's finding with the missing part: the generator, a compiler of kernels, or a card."""
        versions = {"nvcc": capabilities.nvcc, "NVRTC": capabilities.nvrtc}
        compilers = [f"{name} {version}" for name, version in versions.items() if version]
        if self.name not in capabilities.codegens:
            detail = "this TVM generates no CUDA code"
            return Finding("missing", "CUDA", detail, "Install a TVM built with USE_CUDA=ON.")
        if not compilers:
            detail = "TVM generates CUDA code, but neither nvcc nor NVRTC is here to compile it"
            return Finding("missing", "CUDA", detail, f"{INSTALL} (NVRTC; no GPU needed)")
        has_card = self.name in capabilities.devices
        device = "a GPU answers" if has_card else "no GPU answers: packages are built, not run"
        return Finding("ok", "CUDA", f"{', '.join(compilers)}; {device}")


def _nvcc_version() -> str | None:
    command = shutil.which("nvcc")
    if command is None:
        return None
    output = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"release ([\d.]+)", output)
    return match.group(1) if match else None


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _has_plugin() -> bool:
    from tvmbuild.package.runtime.cuda.plugin import is_available  # noqa: PLC0415 - it imports tvm_ffi

    return is_available()


def _choose_nvrtc(attributes: Attributes, capabilities: Capabilities) -> str | None:
    """Return the version of the installed NVRTC for the target's driver, or None."""
    major = choose_driver(attributes)[0]
    found = [each for each in (capabilities.nvrtc or "").split(", ") if each.startswith(f"{major}.")]
    return found[-1] if found else None


def _explain_arch(arch: str, nvrtc: str, capabilities: Capabilities) -> str | None:
    """Return a message with all architectures of the NVRTC if it compiles nothing for ``arch``, or else None."""
    known = capabilities.nvrtc_archs.get(nvrtc, "").split()
    if not known or arch.rstrip("af") in known:
        return None
    return f"NVRTC {nvrtc} compiles nothing for {arch}; it knows {', '.join(known)}"
