"""The versions of the tools that a step uses."""

from __future__ import annotations

from tvmbuild.base.capabilities import Capabilities

ABSENT = "absent"


def list_versions(capabilities: Capabilities, *names: str) -> dict[str, str]:
    """Return name → version of these Python distributions, or `absent` for a missing one."""
    return {name: capabilities.version(name) or ABSENT for name in names}


def list_tvm(capabilities: Capabilities) -> dict[str, str]:
    """Return name → version of the TVM libraries that run packages."""
    return list_versions(capabilities, "apache-tvm", "apache-tvm-ffi")


def list_code_generator(capabilities: Capabilities) -> dict[str, str]:
    """Return name → version of the tools that generate CPU code, without compilers of GPU kernels."""
    return {**list_tvm(capabilities), "llvm": capabilities.llvm or ABSENT}
