"""The table of tensor-core intrinsics for each type of operands."""

from __future__ import annotations

from functools import cache

from tvm.s_tir import TensorIntrin

from tvmbuild.compiler.codegen.tensor_cores import mma, wmma
from tvmbuild.compiler.codegen.tensor_cores.intrinsics import Intrinsics

_MAKERS = {"float16": wmma.make, "bfloat16": mma.make_bfloat16, "float32": mma.make_tf32}
TYPES = tuple(_MAKERS)
"""The types of operands; of a float32, tensor cores use the first 10 bits of the mantissa (TF32)."""


@cache
def register_tensor_cores(dtype: str) -> Intrinsics:
    """Register the intrinsics for operands of a type, once per process, and return their names, depth and scopes."""
    suffix = "" if dtype == "float16" else f"_{dtype}"
    tiles = _MAKERS[dtype]()
    steps = tiles.write_steps()
    names = {step: f"tensor_core_{step}{suffix}" for step in steps}
    for step, pair in steps.items():
        TensorIntrin.register(names[step], *pair, override=True)
    return Intrinsics(**names, depth=tiles.depth, scopes=tiles.scopes, operand_scope=tiles.operand_scope)
