"""Kernels that find elements or boxes on GPUs: a thread for each element, or for 32 pairs of boxes.

The importer writes these functions for a CPU, so that the host can also compute a GPU's module.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvmbuild.compiler.ir.calls import called_functions, is_call
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_calls
from tvmbuild.compiler.kernels.counted.positions import write_positions
from tvmbuild.compiler.kernels.counted.ranked_suppression import write_ranked_suppression
from tvmbuild.compiler.kernels.counted.suppression import Suppression, write_suppression

_POSITIONS, _SUPPRESSION = 4, 8
"""The numbers of arguments of the functions."""


def block_counted(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace the importer's functions that find elements or boxes by those of GPUs."""
    found = {each: new for each in called_functions(mod) if (new := _find_block(mod[each])) is not None}

    def rewrite(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        function = found.get(call.args[0]) if is_call(call, "relax.call_tir") else None
        if function is None:
            return None
        inputs = list(call.args[1])
        outputs = function.params[len(inputs) :]
        types = [relax.TensorType(_find_shape(each), str(each.ty.dtype)) for each in outputs]
        return builder.emit(relax.call_tir(builder.add_func(function, call.args[0].name_hint), inputs, types))

    return rewrite_calls(mod, rewrite, DROP_UNUSED) if found else mod


def _find_block(function: tirx.PrimFunc) -> tirx.PrimFunc | None:
    """Return the function for GPUs, or None for functions that are none of the importer's."""
    shapes = [_find_shape(each) for each in function.params]
    if len(shapes) == _POSITIONS and len(shapes[0]) == 1:
        (size,) = shapes[0]
        if _is_same(function, write_positions(size, on_gpu=False)):
            return write_positions(size, on_gpu=True)
    if len(shapes) == _SUPPRESSION and [len(each) for each in shapes[:5]] == [3, 3, 1, 1, 2]:
        (batches, classes, boxes), kept = shapes[1], shapes[4][1]
        for center, threshold in ((False, True), (False, False), (True, True), (True, False)):
            form = Suppression(batches, classes, boxes, kept, center, threshold)
            if _is_same(function, write_suppression(form)):
                return write_ranked_suppression(form)
    return None


def _find_shape(parameter: tirx.Var) -> list[int]:
    shape = getattr(parameter.ty, "shape", ())
    return [int(extent) for extent in shape if isinstance(extent, tirx.IntImm)]


def _is_same(one: tirx.PrimFunc, other: tirx.PrimFunc) -> bool:
    return bool(tvm_ffi.structural_equal(one, other, map_free_vars=True))
