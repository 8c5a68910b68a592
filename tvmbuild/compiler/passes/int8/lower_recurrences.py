"""Recurrences (LSTM) with integer weights: kernels that use the target's dot instruction, with weights packed for it.

The importer, which does not know the target, writes a kernel that multiplies the integers as floats. An attribute of
that kernel describes the recurrence.
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
    """Rewrite each recurrence with constant integer weights to the target's dot instruction, if the target has one."""
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
