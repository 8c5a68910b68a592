"""Products with constant weights whose columns are padded to whole vectors of the target.

Without padding, the loops over 197 or 1001 columns have no vectors. The weights are padded with zeros when the package
is built, as those of convolutions are, so that they can be packed for tiles; the additional outputs are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import tvm
from tvm import relax, te, tirx

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, constant, static_shape
from tvmbuild.compiler.ir.obstacles import explain_full, list_computed_weights
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.machine.machine import describe_machine, power_of_two_divisor
from tvmbuild.compiler.passes.pad_conv_channels import padded_channels
from tvmbuild.compiler.remarks import is_missed, missed

LARGE = 1 << 18
"""The smallest number of weights for which padding pays off in a product of a single row; fewer weights stay in a
cache and are read fast in any order."""
_NAME = "matmul"


def pad_matmul_columns(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Pad the columns of each float32 product with a constant matrix if that takes fewer vectors."""
    return rewrite_calls(mod, partial(_pad, describe_machine(target).lanes(32)))


def _pad(lanes: int, builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    if not is_call(call, "relax.matmul") or not _is_of_floats(call) or is_missed(_list_obstacles(call)):
        return None
    columns = int(call.args[1].value.shape[1])
    more = padded_channels(columns, lanes) - columns
    if not more:
        return missed(explain_full(columns, "columns", lanes))
    if _is_row(call) and not _is_slow(call.args[1].value.shape, lanes):
        return missed(f"a single row reads its weights of {columns} columns about as fast as they are")
    weights = constant(np.pad(call.args[1].value.numpy(), ((0, 0), (0, more))))
    return relax.call_tir(builder.add_func(_make_function(call, weights), _NAME), [call.args[0], weights], call.ty)


def _is_slow(shape: Sequence[int], lanes: int) -> bool:
    """Return whether a product of one row is slow without padding.

    It has at least `LARGE` weights, and its columns do not fill half vectors, which would read them as fast.
    """
    half = 2 * power_of_two_divisor(int(shape[1]), lanes) >= lanes
    return not half and math.prod(int(each) for each in shape) >= LARGE


def _is_of_floats(call: relax.Call) -> bool:
    return {str(each.ty.dtype) for each in (*call.args, call)} == {"float32"}


def _list_obstacles(call: relax.Call) -> Iterator[str]:
    yield from list_computed_weights(call)
    if len(call.args[1].value.shape) != 2:
        yield f"its weights are matrices in {len(call.args[1].value.shape)} axes, not one"
    if not all(static_shape(each) for each in (call.args[0], call)):
        yield "its shape is not known"


def _is_row(call: relax.Call) -> bool:
    return math.prod((static_shape(call) or ())[:-1]) == 1


def _make_function(call: relax.Call, weights: relax.Expr) -> tirx.PrimFunc:
    data, padded = (te.placeholder(each.ty.shape.values, "float32") for each in (call.args[0], weights))
    *rows, _ = call.ty.shape.values
    k = te.reduce_axis((0, padded.shape[0]), name="k")
    whole = te.compute(
        (*rows, padded.shape[1]),
        lambda *indices: te.sum(data(*indices[:-1], k) * padded(k, indices[-1]), axis=k),
        name="matmul",
    )
    output = te.compute(call.ty.shape.values, whole, name="columns")
    function = te.create_prim_func([data, padded, output])
    return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)
