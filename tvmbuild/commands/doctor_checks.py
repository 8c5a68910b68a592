"""What the doctor looks at in the installation: versions, code generators, linkers. No TVM is imported."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tvmbuild.availability import explain_vulkan
from tvmbuild.capabilities import Capabilities
from tvmbuild.compiler.codegen.nvrtc import INSTALL
from tvmbuild.vulkan import PLUGIN_REMEDY, explain_driver


@dataclass(frozen=True)
class Finding:
    """One line: `wrong` breaks builds, `missing` only narrows what can be built."""

    state: Literal["ok", "missing", "wrong"]
    what: str
    detail: str
    remedy: str = ""


def check_installation(capabilities: Capabilities) -> Iterator[Finding]:
    """Yield the findings about installed distributions and what TVM answered."""
    yield from _check_pins(capabilities)
    yield _check_xgboost(capabilities)
    yield _check_llvm(capabilities)
    yield _check_cuda(capabilities)
    yield _check_vulkan(capabilities)
    yield _check_linker(capabilities)


def list_pins() -> dict[str, str]:
    """Return the exact versions that tvmbuild's own metadata asks for."""
    lines = importlib.metadata.requires("tvmbuild") or ()
    return {match[1]: match[2] for line in lines if (match := re.fullmatch(r"([\w.-]+)==([\w.]+)", line))}


def _check_pins(capabilities: Capabilities) -> Iterator[Finding]:
    for name, wanted in list_pins().items():
        found = capabilities.version(name)
        if found == wanted:
            yield Finding("ok", name, found)
        else:
            why = "0.1.15 segfaults with this TVM" if name == "apache-tvm-ffi" else "other versions are untested"
            yield Finding(
                "wrong", name, f"{found or 'absent'}, expected {wanted}: {why}", f"pip install {name}=={wanted}"
            )


def _check_xgboost(capabilities: Capabilities) -> Finding:
    full, cpu = capabilities.version("xgboost"), capabilities.version("xgboost-cpu")
    if full and cpu:
        detail = f"xgboost {full} and xgboost-cpu {cpu} are both installed and overwrite each other's files"
        remedy = "pip uninstall -y xgboost xgboost-cpu && pip install xgboost-cpu"
        return Finding("wrong", "xgboost", detail, remedy)
    if not full and not cpu:
        return Finding("wrong", "xgboost", "absent: tuning has no cost model", "pip install xgboost-cpu")
    return Finding("ok", "xgboost", f"xgboost-cpu {cpu}" if cpu else f"xgboost {full}")


def _check_llvm(capabilities: Capabilities) -> Finding:
    if capabilities.llvm is None:
        return Finding("wrong", "LLVM", "this TVM was built without it", "pip install --force-reinstall apache-tvm")
    return Finding("ok", "LLVM", f"{capabilities.llvm}: builds for x86-64, aarch64, arm, riscv64 …")


def _check_cuda(capabilities: Capabilities) -> Finding:
    compilers = [f"{name} {version}" for name, version in _cuda_compilers(capabilities) if version]
    if "cuda" not in capabilities.codegens:
        return Finding("missing", "CUDA", "this TVM generates no CUDA code", "Install a TVM built with USE_CUDA=ON.")
    if not compilers:
        detail = "TVM generates CUDA code, but neither nvcc nor NVRTC is here to compile it"
        return Finding("missing", "CUDA", detail, f"{INSTALL} (NVRTC; no GPU needed)")
    device = "a GPU answers" if "cuda" in capabilities.devices else "no GPU answers: packages are built, not run"
    return Finding("ok", "CUDA", f"{', '.join(compilers)}; {device}")


def _cuda_compilers(capabilities: Capabilities) -> tuple[tuple[str, str | None], ...]:
    return (("nvcc", capabilities.nvcc), ("NVRTC", capabilities.nvrtc))


def _check_vulkan(capabilities: Capabilities) -> Finding:
    """Say of each half whether it is here; a machine that only generates code is no fault."""
    halves = (("the code generator", capabilities.codegens), ("the runtime", capabilities.runtimes))
    lacking = " and ".join(name for name, kinds in halves if "vulkan" not in kinds)
    tvm = f"this TVM lacks {lacking}" if lacking else "code generator and runtime"
    names = ", ".join(capabilities.vulkan_devices)
    driver = f"no Vulkan {capabilities.vulkan_missing}" if capabilities.vulkan_missing else f"the driver has {names}"
    remedies = [PLUGIN_REMEDY] if lacking else []
    running = explain_driver(capabilities.vulkan_missing) if lacking else explain_vulkan(capabilities)
    remedies += [running] if running else []
    state: Literal["ok", "missing"] = "missing" if lacking else "ok"
    return Finding(
        state, "Vulkan", f"{tvm}; {driver}", "\n".join(each[0].upper() + each[1:] + "." for each in remedies)
    )


def _check_linker(capabilities: Capabilities) -> Finding:
    version = capabilities.version("ziglang")
    if version is None:
        return Finding(
            "wrong", "linker", "ziglang is absent: no target with `link: auto` can be linked", "pip install ziglang"
        )
    return Finding("ok", "linker", f"ziglang {version}: links for every target")
