"""The versions of the tools that a step uses."""

from __future__ import annotations

from tvmbuild.base.capabilities import Capabilities

ABSENT = "absent"


def list_versions(capabilities: Capabilities, *names: str) -> dict[str, str]:
    """Return name → version of those distributions."""
    return {name: capabilities.version(name) or ABSENT for name in names}


def list_tvm(capabilities: Capabilities) -> dict[str, str]:
    """Return name → version of the libraries that run packages."""
    return list_versions(capabilities, "apache-tvm", "apache-tvm-ffi")


def list_code_generator(capabilities: Capabilities) -> dict[str, str]:
    """Return name → version of the tools that generate CPU code, without those for GPU kernels."""
    return {**list_tvm(capabilities), "llvm": capabilities.llvm or ABSENT}
