"""Marks around the nodes that stay in float32 while the rest of a model is computed in 16 bits or in TF32.

A mark is a Cast to a value's own type with our own name: expansion rules keep it, and ONNX knows its type. The
importer makes a call of `BEGIN` or `END` of it. Passes that derive from `passes/kept_nodes.py` leave the operators
between them in float32, whatever their number.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx
import tvm
from onnx import TensorProto, helper
from tvm import relax

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, list_read, rename_node

_OF_SHAPES = ("Shape", "Size")
BEGIN, END = "float32 begins", "float32 ends"
"""The marks before and after a node that stays in float32: functions that exist until precision is reduced."""


def mark_kept(model: onnx.ModelProto, names: Collection[str]) -> None:
    """Put marks around the nodes with these names, in place. Names that the model lacks are ignored.

    Only nodes that read float32 values are marked: a node between quantised values computes in integers as before.
    Nodes that read shapes only, or whose results have a type that ONNX does not know, are left as they are.
    """
    wanted = frozenset(names)
    if not any(node.name in wanted for node in model.graph.node):
        return
    scope, nodes = Scope(model), Nodes()
    for node in model.graph.node:
        nodes += _mark(node, scope) if node.name in wanted else [node]
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _mark(node: onnx.NodeProto, scope: Scope) -> Nodes:
    read = [name for name in dict.fromkeys(list_read(node)) if name and _is_float(name, scope)]
    begins = {name: scope.fresh(name) for name in read if not scope.is_constant(name)}
    types = {name: scope.element_type(name) for name in node.output if name}
    if not begins or node.op_type in _OF_SHAPES or None in types.values():
        return [node]
    ends = {name: scope.fresh(name) for name in types}  # indices, too: what reads them is not kept
    return [
        *(_cast(name, to, BEGIN, TensorProto.FLOAT) for name, to in begins.items()),
        rename_node(node, begins | ends),
        *(_cast(to, name, END, types[name]) for name, to in ends.items()),
    ]


def _is_float(name: str, scope: Scope) -> bool:
    return bool(scope.element_type(name) == TensorProto.FLOAT)


def _cast(name: str, to: str, mark: str, kind: int | None) -> onnx.NodeProto:
    return helper.make_node("Cast", [name], [to], mark, to=kind)


def convert_cast(call: NodeCall) -> relax.Expr:
    """Convert a Cast; a mark becomes a call of its function, and a Cast of a constant stays one."""
    mark = call.attributes["tvm_custom"]["name"]
    if mark not in {BEGIN, END} or isinstance(call.data, tvm.ir.GenericConst):
        return call.by_tvm()
    return call.emit(relax.op.call_pure_packed, mark, call.data, ty_args=call.data.ty)


def find_mark(value: relax.Expr) -> str | None:
    """Return `BEGIN` or `END` if the expression is a call of it, else None."""
    if isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_pure_packed":
        name = str(getattr(value.args[0], "global_symbol", ""))
        return name if name in {BEGIN, END} else None
    return None
