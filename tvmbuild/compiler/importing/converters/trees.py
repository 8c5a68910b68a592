"""The converter to leaves of decision trees: each row walks down each tree by itself, from the root to a leaf."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.expand.ml.trees import MISSING
from tvmbuild.compiler.ir.expressions import OPAQUE, static_shape


def convert_tree_leaves(call: NodeCall) -> relax.Expr:
    """Return the number of the leaf that each row reaches in each tree, as int32 [rows, trees]."""
    rows, width = call.shape
    (nodes,), (trees,) = (static_shape(call.inputs[place]) or (0,) for place in (1, 6))
    kinds = call.values(3)
    used = sorted({int(kind) for kind in kinds.tolist()}) if kinds is not None else [*range(2 * MISSING)]
    function = call.builder.add_func(_write((rows, width, nodes, trees), call.dtype, used), "tree_leaves")
    return relax.call_tir(function, list(call.inputs), relax.TensorType((rows, trees), "int32"))


def _write(sizes: tuple[int, int, int, int], dtype: str, kinds: list[int]) -> tirx.PrimFunc:
    rows, width, nodes, trees = sizes
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("tree_leaves")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE})
        data = T.arg("data", T.buffer((rows, width), dtype, layout=None))
        features = T.arg("features", T.buffer((nodes,), "int32", layout=None))
        splits = T.arg("splits", T.buffer((nodes,), dtype, layout=None))
        kind, yes, no = (T.arg(name, T.buffer((nodes,), "int32", layout=None)) for name in ("kinds", "yes", "no"))
        roots = T.arg("roots", T.buffer((trees,), "int32", layout=None))
        leaves = T.arg("leaves", T.buffer((rows, trees), "int32", layout=None))
        with T.grid(rows, trees) as (i, j), T.sblock("tree_leaves"):
            row, tree = T.axis.spatial(rows, i), T.axis.spatial(trees, j)
            T.reads(data[row, 0:width], roots[tree], *(each[0:nodes] for each in (features, splits, kind, yes, no)))
            T.writes(leaves[row, tree])
            at = T.sblock_alloc_buffer((1,), "int32", scope="local", layout=None)
            T.buffer_store(at, roots[tree], [0])
            with T.While(yes[at[0]] != at[0]):
                value, split = data[row, features[at[0]]], splits[at[0]]
                goes = _compare(value, split, kind[at[0]], kinds)
                T.buffer_store(at, tirx.if_then_else(goes, yes[at[0]], no[at[0]]), [0])
            T.buffer_store(leaves, at[0], [row, tree])
    return builder.get()


def _compare(value: Any, split: Any, kind: Any, kinds: list[int]) -> Any:
    """Return the condition that a node's comparison holds for a value; ``kinds`` are the comparisons that occur."""
    differs = tirx.any(value < split, value > split, tirx.isnan(value))  # TVM's != is false for NaN
    comparisons = (value <= split, value < split, value >= split, value > split, value.equal(split), differs)
    result = None
    for each in reversed(kinds):
        holds = comparisons[each % MISSING]
        holds = tirx.any(holds, tirx.isnan(value)) if each >= MISSING else holds
        result = holds if result is None else tirx.Select(kind == each, holds, result)
    return result
