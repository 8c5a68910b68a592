"""Matrix products as Relax writes them, and their results on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import te

from tvmbuild.compiler.codegen.byte_products import multiply_bytes, register_byte_products
from tvmbuild.compiler.tasks import normalised

Shape = tuple[int, ...]


def write_product(left: Shape, right: Shape, after: str) -> tvm.IRModule:
    """Return the product, followed by a bias and an activation if ``after`` is "bias".

    With "half" its operands and output are float16, with "bytes" it multiplies words of four bytes.
    """
    dtype = {"half": "float16", "bytes": "int32"}.get(after, "float32")
    a = te.placeholder([tvm.tirx.IntImm("int64", size) for size in left], dtype, "a")
    b = te.placeholder([tvm.tirx.IntImm("int64", size) for size in right], dtype, "b")
    k = te.reduce_axis((tvm.tirx.IntImm("int64", 0), tvm.tirx.IntImm("int64", left[-1])), "k")

    def multiply(*at: Any) -> Any:
        other = b(*at[:-2], k, at[-1]) if len(right) > 2 else b(k, at[-1])
        if after == "bytes":
            return te.sum(multiply_bytes(a(*at[:-1], k), other), axis=k)
        return te.sum(a(*at[:-1], k).astype("float32") * other.astype("float32"), axis=k)

    made = te.compute([*a.shape[:-1], b.shape[-1]], multiply, "matmul")
    arguments = [a, b]
    if after == "bias":
        bias = te.placeholder([b.shape[-1]], dtype, "bias")
        arguments.append(bias)
        added = te.compute(made.shape, lambda *at: made(*at) + bias(at[-1]), "add")
        made = te.compute(made.shape, lambda *at: added(*at) * tvm.tirx.sigmoid(added(*at)), "swish")
    elif after == "half":
        wide = made
        made = te.compute(wide.shape, lambda *at: wide(*at).astype("float16"), "cast")
    return normalised(te.create_prim_func([*arguments, made]))


def run(mod: tvm.IRModule) -> np.ndarray:
    """Return its result for fixed numbers on the CPU."""
    random = np.random.RandomState(1)
    *inputs, output = [([int(size) for size in each.ty.shape], str(each.ty.dtype)) for each in mod["main"].params]
    most = 1 << 31 if {kind for _, kind in inputs} == {"int32"} else 1
    register_byte_products()
    arrays = [tvm.runtime.tensor(random.uniform(-most, most, shape).astype(kind)) for shape, kind in inputs]
    result = tvm.runtime.tensor(np.full(output[0], 12345 if most > 1 else np.nan, output[1]))
    tvm.tirx.build(mod, target="llvm")["main"](*arrays, result)
    return np.asarray(result.numpy(), np.float64)
