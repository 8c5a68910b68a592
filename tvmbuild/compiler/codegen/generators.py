"""What TVM's code generation needs of us, by the target's kind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tvm

from tvmbuild.compiler.codegen.byte_products import register_byte_products
from tvmbuild.compiler.codegen.cubin import compile_with_tvm
from tvmbuild.compiler.codegen.fast_math import use_fast_math
from tvmbuild.compiler.codegen.vulkan.generator import register_generator


@contextlib.contextmanager
def use_generators(target: tvm.target.Target) -> Iterator[None]:
    """Within the context TVM generates code for the target as we do; whatever makes code is inside."""
    use_fast_math()
    register_byte_products()
    if target.kind.name == "vulkan":
        register_generator()
    with compile_with_tvm(target):
        yield
