"""Register with TVM, once a process, all that lowering, scheduling and code generation rely on."""

from __future__ import annotations

from tvmbuild.compiler.codegen.byte_products import register_byte_products
from tvmbuild.compiler.codegen.fast_math import use_fast_math


def prepare_compiler() -> None:
    """Register our lowering rules and intrinsics, once in a process.

    Whatever begins to compile calls it: `lower`, the generators, the tuner's workers, checks of records.
    What only some Tasks name is registered by `prepare_intrinsics`, for it takes seconds.
    """
    use_fast_math()
    register_byte_products()
