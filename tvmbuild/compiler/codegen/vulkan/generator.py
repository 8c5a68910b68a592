"""Our code generator `vulkan` for TVM, where TVM has none."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import tvm
import tvm_ffi

from tvmbuild.compiler.codegen.vulkan.kernel import generate_kernel, pack_module
from tvmbuild.package.runtime.vulkan.plugin import CHOICE, load_plugin

NAME = "target.build.vulkan"


@cache
def register_generator() -> None:
    """Let TVM build for Vulkan with our generator, from now on in this process; TVMBUILD_VULKAN=tvm keeps TVM's own.

    The generated modules belong to the plugin, which is loaded here; TvmbuildError is raised if that fails.
    """
    if os.environ.get(CHOICE) == "tvm" or tvm_ffi.get_global_func(NAME, allow_missing=True) is not None:
        return
    load_plugin()
    tvm_ffi.register_global_func(NAME, _build)


def _build(module: tvm.ir.IRModule, target: tvm.target.Target) -> Any:
    functions = sorted(module.functions.items(), key=lambda item: str(item[0].name_hint))
    content = pack_module([generate_kernel(function, target) for _, function in functions])
    return tvm_ffi.get_global_func("ffi.Module.load_from_bytes.vulkan")(content)
