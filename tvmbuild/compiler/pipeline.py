"""The one pipeline that tuning extracts its Tasks from and that compiling applies records to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.calls import operator_calls
from tvmbuild.compiler.codegen.runtime_calls import check_runtime_calls
from tvmbuild.compiler.codegen.tensor_cores.intrinsics import SIDE
from tvmbuild.compiler.culprit import name_culprit
from tvmbuild.compiler.dot_instructions import find_instruction
from tvmbuild.compiler.expressions import static_shape
from tvmbuild.compiler.graph.attention.cpu.function import write_attention
from tvmbuild.compiler.graph.attention.gpu.function import write_attention as write_gpu_attention
from tvmbuild.compiler.graph.attention.rewrite import Write, fuse_attention
from tvmbuild.compiler.graph.cells import select_cells
from tvmbuild.compiler.graph.channels import pad_channels
from tvmbuild.compiler.graph.columns import pad_columns
from tvmbuild.compiler.graph.empty import drop_empty
from tvmbuild.compiler.graph.fold import fold_constants, prepare
from tvmbuild.compiler.graph.groups import separate_groups
from tvmbuild.compiler.graph.integers.fill import fill_channels
from tvmbuild.compiler.graph.integers.functions import keep_beginnings
from tvmbuild.compiler.graph.integers.pack import pack_integers
from tvmbuild.compiler.graph.integers.rewrite import use_integers
from tvmbuild.compiler.graph.integers.tables import use_tables
from tvmbuild.compiler.graph.integers.words import use_words
from tvmbuild.compiler.graph.interleaved_phases import interleave_phases, is_interleaved
from tvmbuild.compiler.graph.layouts import convert_each
from tvmbuild.compiler.graph.one_dimensional import widen_one_dimensional
from tvmbuild.compiler.graph.one_hot import take_rows
from tvmbuild.compiler.graph.phases import separate_phases
from tvmbuild.compiler.graph.precision import add_up_products_wide
from tvmbuild.compiler.graph.prefix_sums import sum_prefixes_in_blocks
from tvmbuild.compiler.graph.residuals import join_residuals
from tvmbuild.compiler.graph.row_groups import group_rows
from tvmbuild.compiler.graph.scalar_constants import make_scalars
from tvmbuild.compiler.graph.softmax import find_softmax
from tvmbuild.compiler.graph.three_dimensional import flatten_depth
from tvmbuild.compiler.graph.transposed_convolutions import replace_patches
from tvmbuild.compiler.graph.transposes import sink_transposes
from tvmbuild.compiler.graph.wide import most_tensors, split_concatenations, split_wide
from tvmbuild.compiler.graph.winograd.algorithms import ConvolutionCall, apply_algorithms
from tvmbuild.compiler.graph.winograd.epilogue import attach_epilogues
from tvmbuild.compiler.importing.importer import ImportedModel
from tvmbuild.compiler.modules import map_prim_funcs, replace_main
from tvmbuild.compiler.prim_funcs import allow_tf32
from tvmbuild.compiler.schedules.nest import describe_machine
from tvmbuild.compiler.target import is_gpu, multiplies_bytes, tensor_core_types
from tvmbuild.package.metadata import SLOW, TensorInfo

Layout = Literal["NHWC", "NCHW"]

_CPU_LAYOUTS = {
    "relax.nn.conv2d": ["NHWC", "HWIO"],
    # Without this line it follows its input to NHWC, for which TVM has no code.
    "relax.nn.conv2d_transpose": ["NCHW", "IOHW"],
}
_ANY_NAME = "lv"
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_FOLDERS = re.compile(r"""(?<=["'])/(?:[^"']*/)?(?=[^\s/"'])|(?<![\w./])/(?:[^\s/:'"]+/)*(?=[^\s/])""")
"""Of an absolute path: all but the file's name."""


@dataclass(frozen=True)
class Lowered:
    """A module of fused TensorIR functions, ready for records, and how it came to be."""

    mod: tvm.ir.IRModule
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    layout: str
    notes: tuple[str, ...] = ()
    convolutions: tuple[ConvolutionCall, ...] = ()
    """Those that have a choice of algorithm."""


def lower(
    imported: ImportedModel,
    target: tvm.target.Target,
    layout: str | None = None,
    algorithms: Mapping[str, str] = MappingProxyType({}),
) -> Lowered:
    """Fold constants, choose the convolutions' layout and algorithms, legalize and fuse.

    ``layout`` None means the default: NHWC on CPUs, and for tensor cores in float16, else NCHW. Where TVM cannot
    convert a graph to NHWC each convolution gets transposes around it; where that fails too all of it stays NCHW. A
    note says so.

    ``algorithms`` are by a convolution's signature; without one it is computed directly. The same model, target,
    layout and algorithms give the same module in any process.
    """
    with target:
        instruction = find_instruction(target)
        by_words = multiplies_bytes(target)
        signed = by_words or (instruction is not None and instruction.tensor == "int8")
        plain = instruction is None and not by_words
        chosen = layout or _default_layout(target, imported)
        wide = add_up_products_wide(imported.mod) if is_gpu(target) else imported.mod
        widened = widen_one_dimensional(wide) if chosen == "NHWC" else wide
        separated = separate_phases(
            drop_empty(use_integers(widened, signed=signed, plain=plain)), _leave(chosen, target)
        )
        mod = take_rows(prepare(flatten_depth(separated) if chosen == "NHWC" else separated))
        mod = make_scalars(mod, quantised=bool(operator_calls(imported.mod, "relax.quantize")))
        mod = select_cells(mod)
        mod = join_residuals(fuse_attention(find_softmax(mod), _attention_of(target)))
        mod = sum_prefixes_in_blocks(mod) if is_gpu(target) else pad_columns(mod, target)
        notes: tuple[str, ...] = ()
        convolutions: tuple[ConvolutionCall, ...] = ()
        if chosen == "NHWC" and not operator_calls(mod, "relax.nn.conv2d"):
            chosen = "NCHW"
        if chosen == "NHWC":
            converted, problem = _attempt(partial(_convert_to_nhwc, target=target), mod)
            if problem is not None:
                notes = (f"{SLOW}transposes around its convolutions: {problem}",)
                converted, problem = _attempt(partial(_convert_each_to_nhwc, target=target), mod)
            if is_gpu(target) and problem is None:
                fused, problem = _fuse_as_nhwc(use_words(converted, target))
            elif problem is None:
                rewritten = apply_algorithms(converted, algorithms, target)
                packed = pack_integers(use_tables(fill_channels(rewritten.mod, target), target), target)
                padded = pad_channels(separate_groups(packed, target), target)
                convolutions = tuple(
                    replace(each, weights=padded.find_weights(each.weights)) for each in rewritten.convolutions
                )
                fused, problem = _fuse_as_nhwc(padded.mod)
            if problem is not None:
                chosen, notes, convolutions = "NCHW", (f"{SLOW}its convolutions stay in NCHW: {problem}",), ()
        if chosen == "NCHW":
            if any(is_interleaved(call, target) for call in operator_calls(mod, "relax.nn.conv2d_transpose")):
                mod = fold_constants(separate_phases(mod))
            with name_culprit(mod, _fuse):
                fused = _fuse(_anonymise(use_words(pack_integers(use_tables(mod, target), target), target)))
        check_runtime_calls(fused)
        if not is_gpu(target):
            attached, apart = attach_epilogues(fused)
            fused, notes = keep_beginnings(relax.transform.AttachAttrLayoutFreeBuffers()(attached)), (*notes, *apart)
    return Lowered(_say_precision(fused, imported), imported.inputs, imported.outputs, chosen, notes, convolutions)


def _say_precision(mod: tvm.ir.IRModule, imported: ImportedModel) -> tvm.ir.IRModule:
    """Return the module with what its functions may do for speed, as part of what they are."""
    return map_prim_funcs(mod, lambda function, _name: allow_tf32(function)) if imported.tf32 else mod


def _attention_of(target: tvm.target.Target) -> Write:
    """Return what writes attention's function for the target."""
    if is_gpu(target):
        return partial(write_gpu_attention, target=target)
    return partial(write_attention, machine=describe_machine(target))


def _default_layout(target: tvm.target.Target, imported: ImportedModel) -> Layout:
    """Return the layout of a cell for which none was chosen.

    CPU convolutions tune far better in NHWC; tensor cores multiply those with channels enough as one matrix of all
    pixels there.
    """
    if not is_gpu(target):
        return "NHWC"
    calls = operator_calls(imported.mod, "relax.nn.conv2d")
    types = {str(call.args[0].ty.dtype) for call in calls if min((static_shape(call.args[1]) or (0,))[:2]) >= SIDE}
    return "NHWC" if types & tensor_core_types(target, tf32=imported.tf32) else "NCHW"


def _leave(chosen: str, target: tvm.target.Target) -> Callable[[relax.Call], bool]:
    """Return what says of a transposed convolution whether it waits for the layout NHWC."""
    return lambda call: chosen == "NHWC" and is_interleaved(call, target)


def _convert_to_nhwc(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    return _replace_transposed(relax.transform.ConvertLayout(_CPU_LAYOUTS)(mod), target)


def _convert_each_to_nhwc(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    return _replace_transposed(convert_each(mod), target)


def _replace_transposed(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    return fold_constants(sink_transposes(replace_patches(interleave_phases(mod, target))))


def _fuse_as_nhwc(mod: tvm.ir.IRModule) -> tuple[tvm.ir.IRModule, str | None]:
    """Return the fused module, or the reason why TVM has no code for it."""
    fused, problem = _attempt(lambda converted: _fuse(_anonymise(converted)), mod)
    left = sorted({call.op.name for call in operator_calls(fused, "relax.nn.")})
    return fused, problem or (f"no NHWC code for {', '.join(left)}" if left else None)


def _attempt(
    convert: Callable[[tvm.ir.IRModule], tvm.ir.IRModule], mod: tvm.ir.IRModule
) -> tuple[tvm.ir.IRModule, str | None]:
    """Return what ``convert`` makes of the module; else the module itself and the reason why TVM cannot do that."""
    try:
        return convert(mod), None
    except (tvm.error.InternalError, ValueError, TypeError, RuntimeError) as error:
        # ConvertLayout has bugs on some graphs; a slower layout is better than no package.
        return mod, f"ConvertLayout failed: {_last_line(str(error)) or type(error).__name__}"


def _last_line(message: str) -> str:
    """Return the message's last line without addresses and folders: the note is part of a reproducible package."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return _FOLDERS.sub("", _ADDRESS.sub("0x…", lines[-1]))[:200] if lines else ""


def _fuse(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    target = tvm.target.Target.current()
    most = most_tensors(target)
    legal = tvm.transform.Sequential(
        [
            relax.backend.DispatchSampling(),
            relax.backend.DispatchSortScan(),
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
        ]
    )(split_concatenations(mod, most))
    fused = relax.transform.FuseOps()(legal if is_gpu(target) else group_rows(legal))
    return tvm.transform.Sequential(
        [
            relax.transform.FuseTIR(),
            # Before Tasks are seen: a reshape is free at run time and not worth a search.
            relax.transform.RewriteDataflowReshape(),
            relax.transform.DeadCodeElimination(),
        ]
    )(split_wide(fused, most))


def _anonymise(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Give every Relax variable of ``main`` one name.

    LegalizeOps names blocks after variables (``lv235_red``) and a trace finds blocks by name; without this a trace of
    one model fails on the equal Task of another.
    """
    return replace_main(mod, _Renamer(mod).visit_expr(mod["main"]))


@mutator
class _Renamer(PyExprMutator):  # type: ignore[misc]
    def visit_var_def_(self, var: relax.Var) -> relax.Var:
        return self._rename(var, relax.Var(_ANY_NAME, var.ty))

    def visit_dataflow_var_def_(self, var: relax.Var) -> relax.Var:
        return self._rename(var, relax.DataflowVar(_ANY_NAME, var.ty))

    def _rename(self, var: relax.Var, new: relax.Var) -> relax.Var:
        self.set_var_remap(var, new)
        return new
