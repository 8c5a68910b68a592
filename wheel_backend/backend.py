# ruff: noqa: INP001 - no package: pyproject.toml names the folder
"""setuptools' build backend. Only a wheel's build installs the compiler of the Vulkan runtime, which weighs 430 MB."""

from __future__ import annotations

from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the hooks of PEP 517 and 660

_COMPILER = ["ziglang>=0.13", "apache-tvm-ffi==0.1.14.post1", "platformdirs>=4"]
"""The compiler, the headers, and the package that finds the compiler's cache."""


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return the distributions that a wheel's build needs besides setuptools."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_COMPILER]
