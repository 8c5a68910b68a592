"""Recurrences with integer weights by the target's dot instruction: packed for it, and as its kernel.

The import, which knows no target, multiplies them as floats; its kernel says of itself which recurrence it is.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_calls
from tvmbuild.compiler.kernels.recurrence.dot_products import choose_products
from tvmbuild.compiler.kernels.recurrence.form import Recurrence
from tvmbuild.compiler.kernels.recurrence.kernel import write_recurrence
from tvmbuild.compiler.machine.dot_instructions import find_instruction
from tvmbuild.compiler.remarks import missed


def lower_recurrences(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Rewrite each recurrence with integer weights that the target has a dot instruction for."""
    forms = {variable: Recurrence.of_function(function) for variable, function in mod.functions.items()}
    instruction = find_instruction(target)
    if instruction is None or not any(forms.values()):
        return mod

    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        form = forms.get(call.args[0]) if is_call(call, "relax.call_tir") else None
        if form is None:
            return None
        data, weights, scales, *states = call.args[1]
        if not all(isinstance(each, tvm.ir.GenericConst) for each in (weights, scales)):
            return missed("its weights are computed")
        dots = choose_products(form, instruction)
        packed, constants = dots.pack(weights.value.numpy(), scales.value.numpy())
        function = builder.add_func(write_recurrence(form, dots), f"{form.kind.lower()}_int8")
        arguments = relax.Tuple([data, constant(packed), constant(constants), *states])
        return relax.Call(call.op, [function, arguments, *call.args[2:]], call.attrs, call.ty_args)

    return rewrite_calls(mod, rule, DROP_UNUSED)
