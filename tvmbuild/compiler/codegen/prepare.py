"""Registration with TVM, once in a process, of everything that lowering, scheduling and code generation need."""

from __future__ import annotations

from tvmbuild.compiler.codegen.byte_products import register_byte_products
from tvmbuild.compiler.codegen.fast_math import use_fast_math


def prepare_compiler() -> None:
    """Register our lowering rules and intrinsics, once in a process.

    All code that starts a compilation calls this function: `lower`, the generators, the tuner's workers and the checks
    of records. `register_named` registers the intrinsics that only some records name, because their registration
    takes seconds.
    """
    use_fast_math()
    register_byte_products()
