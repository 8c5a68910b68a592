"""Products that stay in full float32 while the other products of a model may use TF32.

A product is exact if it states its result type, `out_dtype`, which float32 products do not need. Passes that rewrite
a product keep this attribute. Where operators become functions, it becomes an annotation of the block that adds up,
and `mark_tf32` reads it there.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.relax.expr_functor import mutator

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.modules import map_prim_funcs, replace_main
from tvmbuild.compiler.ir.prim_funcs import allow_tf32, change_block, list_blocks
from tvmbuild.compiler.ir.products import PRODUCTS, is_product, list_attributes
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.passes.kept_nodes import KeptNodes

_ANNOTATION = "tvmbuild_exact_product"
_FLOAT32 = "float32"


def keep_exact(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return the module with the products between marks exact, and without the marks."""
    converter = _Converter(mod)
    rewritten = replace_main(mod, converter.visit_expr(mod["main"]))
    if not converter.has_marks:
        return mod
    return relax.transform.DeadCodeElimination()(relax.transform.CanonicalizeBindings()(rewritten))


def is_exact(call: relax.Call) -> bool:
    """Return whether the call is a product that stays in full float32."""
    return is_product(call) and str(call.attrs.out_dtype) == _FLOAT32 == str(call.args[0].ty.dtype)


@mutator
class _Converter(KeptNodes):
    """A mutator that makes the products between marks exact."""

    def convert_kept(self, binding: relax.VarBinding) -> None:
        value = binding.value
        if not is_product(value) or str(value.ty.dtype) != _FLOAT32:
            super().convert_kept(binding)
            return
        args = [self.visit_expr(arg) for arg in value.args]
        exact = PRODUCTS[value.op.name](*args, **list_attributes(value) | {"out_dtype": _FLOAT32})
        emit = self.builder_.emit if isinstance(binding.var, relax.DataflowVar) else self.builder_.emit_output
        self.set_var_remap(binding.var, emit(exact))


def annotate_exact_products(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace each exact product by a call of TVM's function for it, whose sums are annotated."""

    def annotate(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        if not is_exact(call):
            return None
        made = call.op.get_attr("FLegalize")(builder, call)
        if not is_call(made, "relax.call_tir"):
            return None  # LegalizeOps finds no function for it either
        variable = made.args[0]
        function = _change_annotations(builder.get()[variable], {_ANNOTATION: True})
        return relax.call_tir(builder.add_func(function, str(variable.name_hint)), made.args[1], made.ty_args[0])

    return rewrite_calls(mod, annotate, (relax.transform.DeadCodeElimination,))


def mark_tf32(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Mark the functions as allowed to use TF32, except those with exact sums: the mark is part of their identity.

    Without its annotation an exact function is the same as in a float32 model, and shares that function's records.
    """

    def mark(function: tirx.PrimFunc, _name: str) -> tirx.PrimFunc:
        if any(_ANNOTATION in block.annotations for block in list_blocks(function)):
            return _change_annotations(function, {})
        return allow_tf32(function)

    return map_prim_funcs(mod, mark)


def _change_annotations(function: tirx.PrimFunc, added: dict[str, object]) -> tirx.PrimFunc:
    """Return the function whose sums have the annotations ``added``, and not that of an exact product otherwise."""

    def visit(block: s_tir.SBlock, mutator: Any) -> s_tir.SBlock:
        inner = mutator.default_mutate(block)
        if inner.init is None:
            return inner
        kept = {name: value for name, value in inner.annotations.items() if name != _ANNOTATION}
        return change_block(inner, annotations={**kept, **added})

    return function.with_body(tvm_ffi.structural_mutate(function.body, [(s_tir.SBlock, visit)]))
