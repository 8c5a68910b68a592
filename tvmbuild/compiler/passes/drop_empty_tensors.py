"""Splits and concatenations without their empty parts.

ONNX's RotaryEmbedding of whole heads splits an empty part off and concatenates it again. The empty loops keep TVM from
fusing the operators around them, and TVM refuses a split whose first part is empty.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_main
from tvmbuild.compiler.remarks import missed


def drop_empty_tensors(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Remove empty parts from splits and concatenations that have another part."""
    splits, joins = (operator_calls(mod, f"relax.{name}") for name in ("split", "concat"))
    parts = [field for call in splits for field in call.ty.fields]
    parts += [field.ty for call in joins if isinstance(call.args[0], relax.Tuple) for field in call.args[0].fields]
    if not any(_is_empty(part) for part in parts):
        return mod
    return rewrite_main(mod, _DropEmptyTensors(mod), DROP_UNUSED)


@mutator
class _DropEmptyTensors(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if not is_call(call, "relax.concat"):
            return call
        parts = resolve(self.lookup_binding, call.args[0])
        if not isinstance(parts, relax.Tuple):
            return call
        kept = [field for field in parts.fields if not _is_empty(field.ty)]
        if not kept:
            missed("all parts of the concatenation are empty")
        if len(kept) in {0, len(parts.fields)}:
            return call
        return kept[0] if len(kept) == 1 else relax.op.concat(kept, call.attrs.axis)

    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
        item = super().visit_tuple_getitem_(item)
        split = resolve(self.lookup_binding, item.tuple_value)
        if not is_call(split, "relax.split"):
            return item
        fields = list(split.ty.fields)
        kept = [index for index, field in enumerate(fields) if not _is_empty(field)]
        if not kept:
            missed("all parts of the split are empty")
        if len(kept) in {0, len(fields)}:
            return item
        if item.index not in kept:
            return relax.op.zeros(item.ty.shape, item.ty.dtype)
        if len(kept) == 1:
            return split.args[0]
        axis = int(split.attrs.axis)
        ends = np.cumsum([int(fields[index].shape.values[axis]) for index in kept])
        others = self.builder_.emit(relax.op.split(split.args[0], [int(end) for end in ends[:-1]], axis))
        return relax.TupleGetItem(others, kept.index(item.index))


def _is_empty(kind: tvm.ir.Type) -> bool:
    shape = getattr(kind, "shape", None)
    sizes = shape.values if isinstance(shape, relax.ShapeExpr) else []
    return any(isinstance(size, tirx.IntImm) and int(size) == 0 for size in sizes)
