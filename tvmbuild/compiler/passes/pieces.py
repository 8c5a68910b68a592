"""Parts of functions that FuseOps made: what passes after it take apart, and put together in another way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.relax.analysis import all_vars

from tvmbuild.compiler.ir.calls import display_name, is_call
from tvmbuild.compiler.ir.modules import replace_main


@dataclass(frozen=True)
class Piece:
    """Bindings that become one function; the last binding is the function's result."""

    bindings: tuple[relax.Binding, ...]
    inputs: tuple[relax.Expr, ...]
    """The variables and constants that the function takes."""

    @property
    def result(self) -> relax.Var:
        """Return the variable of the last binding."""
        return self.bindings[-1].var

    @property
    def buffers(self) -> int:
        """Return the number of tensors that the function takes and returns."""
        return len(self.inputs) + 1

    def follow(self, other: Piece) -> Piece:
        """Return this piece joined with ``other``, whose result is one of this piece's inputs."""
        own = [each for each in self.inputs if not each.same_as(other.result)]
        inputs = (*other.inputs, *(each for each in own if not _contains(other.inputs, each)))
        return Piece((*other.bindings, *self.bindings), inputs)


def piece_of(*bindings: relax.Binding) -> Piece:
    """Return the bindings as one piece; the value of a single one may be any expression."""
    made = [each.var for each in bindings]
    inputs: list[relax.Expr] = []
    for binding in bindings:
        call = binding.value
        for each in call.args[1].fields if is_call(call, "relax.call_tir") else all_vars(call):
            if not _contains(inputs, each) and not _contains(made, each):
                inputs.append(each)
    return Piece(bindings, tuple(inputs))


def _contains(given: Sequence[relax.Expr], expr: relax.Expr) -> bool:
    return any(each.same_as(expr) for each in given)


def is_chain(function: tvm.ir.BaseFunc) -> bool:
    """Return whether FuseOps made the function, and its body only calls TensorIR functions."""
    return (
        isinstance(function, relax.Function)
        and bool((function.attrs or {}).get("Primitive"))
        and len(function.body.blocks) == 1
        and all(isinstance(each.ty, relax.TensorType) for each in function.params)
        and all(is_call(each.value, "relax.call_tir") for each in function.body.blocks[0].bindings)
        and function.body.body.same_as(function.body.blocks[0].bindings[-1].var)
    )


def inline_chain(function: relax.Function, binding: relax.Binding) -> list[relax.Binding]:
    """Return the bindings of the function's body, which replace ``binding``, the call of the function."""
    values = list(zip(function.params, binding.value.args, strict=True))
    *inner, last = function.body.blocks[0].bindings
    written = []
    for each in inner:
        written.append(relax.VarBinding(relax.DataflowVar("lv", each.var.ty), _substitute(each.value, values)))
        values.append((each.var, written[-1].var))
    return [*written, relax.VarBinding(binding.var, _substitute(last.value, values))]


def _substitute(call: relax.Call, values: Sequence[tuple[relax.Expr, relax.Expr]]) -> relax.Call:
    arguments = [next((new for old, new in values if old.same_as(each)), each) for each in call.args[1].fields]
    return relax.Call(call.op, [call.args[0], relax.Tuple(arguments), *call.args[2:]], call.attrs, call.ty_args)


def bind_piece(builder: relax.BlockBuilder, piece: Piece) -> relax.Binding:
    """Return the binding of the piece's result: a call of a new function, or a single operator as it is."""
    single = len(piece.bindings) == 1
    return piece.bindings[0] if single else relax.VarBinding(piece.result, _make_function(builder, piece))


def replace_blocks(
    builder: relax.BlockBuilder, main: relax.Function, blocks: Sequence[relax.BindingBlock]
) -> tvm.ir.IRModule:
    """Return the builder's module with these blocks in its ``main``, without functions that nothing calls."""
    body = relax.SeqExpr(blocks, main.body.body)
    function = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    made = relax.transform.Normalize()(replace_main(builder.get(), function))
    return relax.transform.DeadCodeElimination()(made)


def _make_function(builder: relax.BlockBuilder, piece: Piece) -> relax.Call:
    """Add a function of the piece's operators to the module, and return a call of this function."""
    parameters = [relax.Var(f"param_{number}", each.ty) for number, each in enumerate(piece.inputs)]
    values = list(zip(piece.inputs, parameters, strict=True))
    name = "fused_" + "_".join(display_name(each.value.args[0].name_hint) for each in piece.bindings)
    with builder.function(name, parameters, attrs={"Primitive": True}, private=True):
        with builder.dataflow():
            for each in piece.bindings[:-1]:
                values.append((each.var, builder.emit(_substitute(each.value, values))))
            out = builder.emit_output(_substitute(piece.bindings[-1].value, values))
        variable = builder.emit_func_output(out)
    return relax.Call(variable, piece.inputs)
