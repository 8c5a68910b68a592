"""TopK on GPUs by many threads: blocks sort chunks of a row in shared memory, and the sorted runs are merged by rank.

The importer's function is an insertion sort, which a single thread of a GPU runs: 300 of 8,400 elements take 11.9 ms on
an H200, and 15 µs by this pass. An element's place in the merged run is its place in its own run plus the number of
elements of the other runs that come before it, which a binary search finds.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvmbuild.compiler.importing.converters.top_k import write_top_k
from tvmbuild.compiler.ir.calls import called_functions, is_call
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_calls
from tvmbuild.compiler.kernels.top_k import TYPES, Merge, TopK, write_merge, write_sort
from tvmbuild.compiler.machine.limits import limits_of
from tvmbuild.compiler.remarks import missed

FAN = 6
"""The largest number of runs that are merged into one. On an H200, the top 300 of 8,400 elements take 14.3 µs with 6,
and 19.6 µs with 10 or 32; the top 256 of 30,000 take 22.0 µs with 6, 19.8 µs with 3 (and two more launches), and
48.0 µs with 32."""
_MOST = 1 << 30
"""The largest number of elements in a row: the kernels keep indices as int32."""


def block_top_k(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Replace the importer's `topk` functions of `main` by sorts of chunks and merges of sorted runs."""
    found = {each: form for each in called_functions(mod) if (form := _find_form(mod[each])) is not None}

    def rewrite(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        form = found.get(call.args[0]) if is_call(call, "relax.call_tir") else None
        if form is None:
            return None
        return _write(builder, form, call.args[1][0], limits_of(target.attrs).threads)

    return rewrite_calls(mod, rewrite, DROP_UNUSED) if found else mod


def _find_form(function: tirx.PrimFunc) -> TopK | None:
    """Return the sizes of a `topk` function that the importer wrote, or None for any other function."""
    if len(function.params) != 3:
        return None
    shapes = [_find_shape(each) for each in function.params]
    if not all(len(shape) == 2 for shape in shapes):
        return None
    (rows, length), (_, k), _ = shapes
    for largest in (True, False):
        form = TopK(rows, length, k, str(function.params[0].ty.dtype), largest)
        if tvm_ffi.structural_equal(write_top_k(form), function, map_free_vars=True):
            return _accept(form)
    return None


def _find_shape(parameter: tirx.Var) -> list[int]:
    shape = getattr(parameter.ty, "shape", ())
    return [int(extent) for extent in shape if isinstance(extent, tirx.IntImm)]


def _accept(form: TopK) -> TopK | None:
    if form.dtype not in TYPES:
        return missed(f"its elements are {form.dtype}")
    if form.length > _MOST:
        return missed(f"its rows have {form.length} elements")
    return form if form.rows and form.k else missed("it takes no elements")


def _write(builder: relax.BlockBuilder, form: TopK, data: relax.Expr, threads: int) -> relax.Expr:
    runs, length = form.runs, min(form.k, form.chunk)
    found = _call(builder, "topk_chunks", write_sort(form, threads), [data])
    while runs > 1:
        fan = _choose_fan(runs)
        merge = Merge(runs, length, fan, min(form.k, fan * length))
        parts = [builder.emit(relax.TupleGetItem(found, index)) for index in range(2)]
        runs, length = merge.groups, merge.kept
        found = _call(builder, "topk_merge", write_merge(form, merge), [*parts, data] if runs == 1 else parts)
    return found


def _choose_fan(runs: int) -> int:
    """Return the number of runs that the next round merges into one, so that all rounds merge about equally many."""
    rounds = next(count for count in range(1, runs) if FAN**count >= runs)
    return next(fan for fan in range(2, runs + 1) if fan**rounds >= runs)


def _call(builder: relax.BlockBuilder, name: str, function: tirx.PrimFunc, arguments: list[relax.Expr]) -> relax.Expr:
    outputs = function.params[len(arguments) :]
    types = [relax.TensorType(_find_shape(each), str(each.ty.dtype)) for each in outputs]
    return builder.emit(relax.call_tir(builder.add_func(function, name), arguments, types))
