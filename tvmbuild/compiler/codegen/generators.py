"""What TVM's code generation needs of us, by the target's kind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tvm

from tvmbuild.compiler.codegen.byte_products import register_byte_products
from tvmbuild.compiler.codegen.cubin import compile_with_tvm
from tvmbuild.compiler.codegen.dependent_launch import use_dependent_launch
from tvmbuild.compiler.codegen.fast_math import use_fast_math
from tvmbuild.compiler.codegen.vulkan.generator import register_generator
from tvmbuild.compiler.machine.target import copies_asynchronously


def pass_config(target: tvm.target.Target) -> dict[str, Any]:
    """Return the configuration of TVM's passes that code for the target is made with, by whatever makes it."""
    return {"tirx.use_async_copy": True} if copies_asynchronously(target) else {}


@contextlib.contextmanager
def use_generators(target: tvm.target.Target) -> Iterator[None]:
    """Within the context TVM generates code for the target as we do; whatever makes code is inside."""
    use_fast_math()
    register_byte_products()
    if target.kind.name == "vulkan":
        register_generator()
    if target.kind.name == "cuda":
        use_dependent_launch()
    with compile_with_tvm(target):
        yield
