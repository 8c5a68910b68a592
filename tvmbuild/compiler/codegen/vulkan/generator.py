"""Our code generator `vulkan` for a TVM that was built without one."""

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
    """Make TVM build for Vulkan with our code generator for the rest of this process, unless TVM has its own generator.

    TVMBUILD_VULKAN=tvm keeps our generator from being registered. The generated modules belong to the plugin, which
    this function loads. Raises TvmbuildError if loading fails.
    """
    if os.environ.get(CHOICE) == "tvm" or tvm_ffi.get_global_func(NAME, allow_missing=True) is not None:
        return
    load_plugin()
    tvm_ffi.register_global_func(NAME, _build)


def _build(module: tvm.ir.IRModule, target: tvm.target.Target) -> Any:
    functions = sorted(module.functions.items(), key=lambda item: str(item[0].name_hint))
    content = pack_module([generate_kernel(function, target) for _, function in functions])
    return tvm_ffi.get_global_func("ffi.Module.load_from_bytes.vulkan")(content)
