"""Registration with TVM, once in a process, of everything that lowering, scheduling and code generation need."""

from __future__ import annotations

from tvmbuild.compiler.codegen.byte_products import register_byte_products
from tvmbuild.compiler.codegen.fast_math import use_fast_math


def prepare_compiler() -> None:
    """Register our lowering rules and intrinsics, once in a process.

    Everything that starts to compile calls it: `lower`, the generators, the tuner's workers, checks of records.
    `prepare_intrinsics` registers the intrinsics that only some Tasks name, because that takes seconds.
    """
    use_fast_math()
    register_byte_products()
