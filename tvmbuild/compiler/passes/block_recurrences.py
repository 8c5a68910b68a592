"""LSTM, GRU and RNN on GPUs: a block of threads runs all steps of a sequence in one direction.

The importer writes the kernel for CPUs, because it does not know how many threads a block may have.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_calls
from tvmbuild.compiler.kernels.recurrence.block import BlockSizes, write_block_recurrence
from tvmbuild.compiler.kernels.recurrence.form import Recurrence
from tvmbuild.compiler.machine.limits import limits_of
from tvmbuild.compiler.pass_manager import add_notes
from tvmbuild.package.metadata import SLOW


def block_recurrences(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Replace the importer's recurrences by kernels of blocks of threads, with weights packed for them."""
    forms = {variable: Recurrence.of_function(function) for variable, function in mod.functions.items()}
    found = list(filter(None, forms.values()))
    if not found:
        return mod

    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        form = forms.get(call.args[0]) if is_call(call, "relax.call_tir") else None
        if form is None:
            return None
        data, weights, *others = call.args[1]
        sizes = BlockSizes.choose(form, limits_of(target.attrs))
        packed = constant(sizes.pack_weights(form, weights.value.numpy()))
        function = builder.add_func(write_block_recurrence(form, sizes), form.kind.lower())
        arguments = relax.Tuple([data, packed, *others])
        return relax.Call(call.op, [function, arguments, *call.args[2:]], call.attrs, call.ty_args)

    slow = [f"{SLOW}{_describe(form)}" for form in found if form.is_large]
    return add_notes(rewrite_calls(mod, rule, DROP_UNUSED), slow)


def _describe(form: Recurrence) -> str:
    return f"one multiprocessor runs all {form.steps} steps of each sequence of the {form.kind} of {form.hidden} units"
