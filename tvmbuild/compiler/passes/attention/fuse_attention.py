"""The pass that finds attention in ``main`` and replaces it by a call of one function.

``write`` writes this function from an `Attention`, the description of the attention; CPUs and GPUs have different
writers. Transposes of heads before the attention become strides of its inputs. Transposes after it are dropped if the
output is stored in their order.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.def_use import DefUse
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.rewrite import TIDY, rewrite_main
from tvmbuild.compiler.kernels.attention.form import Attention
from tvmbuild.compiler.passes.attention.describe import Describer, rows_last
from tvmbuild.compiler.passes.attention.pattern import NotAttentionError, Pattern, match
from tvmbuild.compiler.passes.attention.projections import combine_projections
from tvmbuild.compiler.passes.attention.sources import find_source
from tvmbuild.compiler.remarks import missed

Write = Callable[[Attention], tirx.PrimFunc | None]
"""A function that writes an attention's kernel, or returns None if separate operators are as fast."""


def fuse_attention(mod: tvm.ir.IRModule, write: Write) -> tvm.ir.IRModule:
    """Replace each attention by a call of one fused function.

    A module without attention stays as it is.
    """
    if not operator_calls(mod, "relax.nn.softmax"):
        return mod
    graph, found, left = _find(mod)
    combined = combine_projections(mod, graph, found)
    if combined is not mod:
        graph, found, left = _find(combined)
    for why in left:
        missed(str(why))
    if not found:
        return mod
    rewriter = _FuseAttention(combined, graph, {hash(each.product): each for each in found}, write)
    fused = rewrite_main(combined, rewriter, TIDY)
    return mod if fused is combined else fused  # combined products only help attention


def _find(mod: tvm.ir.IRModule) -> tuple[DefUse, list[Pattern], list[NotAttentionError]]:
    """Return the graph, its attentions, and the reasons why similar patterns are not attention."""
    graph = DefUse(mod["main"])
    matched = [_try(graph, value) for value in graph.values.values() if is_call(value, "relax.matmul")]
    found = [each for each in matched if isinstance(each, Pattern)]
    return graph, found, [each for each in matched if isinstance(each, NotAttentionError)]


def _try(graph: DefUse, product: relax.Call) -> Pattern | NotAttentionError | None:
    try:
        return match(graph, product)
    except NotAttentionError as why:
        return why


@mutator
class _FuseAttention(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, graph: DefUse, found: dict[int, Pattern], write: Write) -> None:
        super().__init__(mod)
        self._found, self._write = found, write
        self._describer = Describer(self, graph)
        self._outputs: list[relax.Var] = []

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        pattern = self._found.get(hash(call))
        result = None if pattern is None else self._replace(pattern)
        if result is not None:
            return result
        call = super().visit_call_(call)
        if self._outputs and (is_call(call, "relax.permute_dims") or is_call(call, "relax.reshape")):
            return self._see_through(call)
        return call

    def _see_through(self, call: relax.Call) -> relax.Expr:
        """Return a reshape of an attention's output if the transposes between it and the call move nothing.

        Otherwise return the call.
        """
        source = find_source(self.lookup_binding, call)
        if source is None or not any(source.tensor.same_as(each) for each in self._outputs):
            return call
        return relax.op.reshape(source.tensor, static_shape(call)) if source.view.is_dense() else call

    def _replace(self, pattern: Pattern) -> relax.Expr | None:
        found = self._describer.describe(pattern)
        function = None if found is None else self._write(found.form)
        if found is None or function is None:
            return None
        form, shape = found.form, static_shape(pattern.product)
        variable = self.builder_.add_func(function, "attention")
        kind = relax.TensorType(form.output_shape, form.dtype)
        output = self.builder_.emit(relax.call_tir(variable, list(found.inputs), kind))
        self._outputs.append(output)
        order = rows_last(len(form.heads), form.rows_after)
        made = self.builder_.emit(relax.op.permute_dims(output, order)) if order != sorted(order) else output
        return relax.op.reshape(made, shape)
