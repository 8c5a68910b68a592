"""The compiler's passes, in their order.

Tuning extracts Tasks from the lowered module; compiling applies records to the same module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import tvm
from tvm import relax

from tvmbuild.compiler.bugs import last_line, report_bug
from tvmbuild.compiler.codegen.prepare import prepare_compiler
from tvmbuild.compiler.codegen.runtime_calls import check_runtime_calls
from tvmbuild.compiler.convolution_layout import default_layout
from tvmbuild.compiler.culprit import name_culprit
from tvmbuild.compiler.importing.importer import ImportedModel
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.kernels.attention.cpu.kernel import write_attention
from tvmbuild.compiler.kernels.attention.gpu.function import write_attention as write_gpu_attention
from tvmbuild.compiler.kernels.int8.dot_kernels import pin_initial_values
from tvmbuild.compiler.machine.dot_instructions import find_instruction
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import is_gpu, multiplies_bytes
from tvmbuild.compiler.pass_manager import (
    NOTES,
    Layout,
    LayoutUnsupported,
    Lowering,
    Pass,
    PassError,
    Phase,
    add_notes,
    allows_tf32,
    from_tvm,
    in_nchw,
    in_nhwc,
    in_nhwc_each,
    in_nhwc_throughout,
    of_module,
    of_target,
    on_cpu,
    on_gpu,
    read_notes,
    run_passes,
)
from tvmbuild.compiler.passes.attention.fuse_attention import fuse_attention
from tvmbuild.compiler.passes.block_counted import block_counted
from tvmbuild.compiler.passes.block_recurrences import block_recurrences
from tvmbuild.compiler.passes.block_top_k import block_top_k
from tvmbuild.compiler.passes.canonicalize_var_names import canonicalize_var_names
from tvmbuild.compiler.passes.convert_each_layout import convert_each_layout
from tvmbuild.compiler.passes.drop_empty_tensors import drop_empty_tensors
from tvmbuild.compiler.passes.drop_padded_taps import drop_padded_taps
from tvmbuild.compiler.passes.exact_products import annotate_exact_products, mark_tf32
from tvmbuild.compiler.passes.find_softmax import find_softmax
from tvmbuild.compiler.passes.flatten_conv3d import flatten_conv3d
from tvmbuild.compiler.passes.fold_constants import decompose_and_fold, fold_constants
from tvmbuild.compiler.passes.fuse_normalization import fuse_normalization
from tvmbuild.compiler.passes.int8.byte_lookup_tables import use_byte_lookup_tables
from tvmbuild.compiler.passes.int8.lower_dot_products import lower_dot_products
from tvmbuild.compiler.passes.int8.lower_qdq_to_int8 import lower_qdq_to_int8
from tvmbuild.compiler.passes.int8.lower_recurrences import lower_recurrences
from tvmbuild.compiler.passes.int8.lower_to_dp4a import lower_to_dp4a
from tvmbuild.compiler.passes.int8.pad_int8_channels import pad_int8_channels
from tvmbuild.compiler.passes.interleave_conv_transpose_phases import interleave_conv_transpose_phases, is_interleaved
from tvmbuild.compiler.passes.join_residuals import join_residuals
from tvmbuild.compiler.passes.one_hot_to_take import one_hot_to_take
from tvmbuild.compiler.passes.order_extremes import order_extremes
from tvmbuild.compiler.passes.pad_conv_channels import pad_conv_channels
from tvmbuild.compiler.passes.pad_matmul_columns import pad_matmul_columns
from tvmbuild.compiler.passes.patch_conv_transpose_to_conv import patch_conv_transpose_to_conv
from tvmbuild.compiler.passes.precision import sum_products_in_float32
from tvmbuild.compiler.passes.prefix_sums.lower_prefix_sums import lower_prefix_sums
from tvmbuild.compiler.passes.scalar_constants import make_scalar_constants
from tvmbuild.compiler.passes.scatter_to_select import scatter_to_select
from tvmbuild.compiler.passes.separate_groups import separate_groups
from tvmbuild.compiler.passes.sink_transposes import sink_transposes
from tvmbuild.compiler.passes.split_conv_transpose_by_phase import split_conv_transpose_by_phase
from tvmbuild.compiler.passes.split_deep_functions import split_deep_functions
from tvmbuild.compiler.passes.split_wide_functions import split_concatenations, split_wide_functions
from tvmbuild.compiler.passes.widen_conv1d import widen_conv1d
from tvmbuild.compiler.passes.winograd.apply_winograd import ConvolutionCall, apply_winograd, read_convolutions
from tvmbuild.compiler.passes.winograd.attach_epilogues import attach_epilogues
from tvmbuild.compiler.passes.winograd.choices import CHOICES
from tvmbuild.compiler.passes.write_scatters import write_scatters
from tvmbuild.package.metadata import SLOW, TensorInfo

_NHWC = {
    "relax.nn.conv2d": ["NHWC", "HWIO"],
    # Without this line, a transposed convolution follows its input to NHWC, for which TVM has no code.
    "relax.nn.conv2d_transpose": ["NCHW", "IOHW"],
}


def _lower_qdq_to_int8(mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
    instruction, by_words = find_instruction(lowering.target), multiplies_bytes(lowering.target)
    signed = by_words or (instruction is not None and instruction.tensor == "int8")
    return lower_qdq_to_int8(mod, signed=signed, plain=instruction is None and not by_words)


def _separate_phases(mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
    return split_conv_transpose_by_phase(mod, lambda call: in_nhwc(lowering) and is_interleaved(call, lowering.target))


def _separate_left(mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
    """Split the transposed convolutions that SplitConvTransposeByPhase kept for NHWC: this module stays in NCHW."""
    calls = operator_calls(mod, "relax.nn.conv2d_transpose")
    is_left = any(is_interleaved(call, lowering.target) for call in calls)
    return fold_constants(split_conv_transpose_by_phase(mod)) if is_left else mod


def _fuse_attention(mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
    if is_gpu(lowering.target):
        return fuse_attention(mod, partial(write_gpu_attention, target=lowering.target))
    return fuse_attention(mod, partial(write_attention, machine=describe_machine(lowering.target)))


def _check_layout(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Refuse the layout if an operator has no code in NHWC; the lowering then tries the next layout."""
    left = sorted({call.op.name for call in operator_calls(mod, "relax.nn.")})
    if left:
        raise LayoutUnsupported(f"no NHWC code for {', '.join(left)}")
    return mod


OPERATORS = Phase(
    "operators",
    (
        of_module("SumProductsInFloat32", sum_products_in_float32, on_gpu),
        of_module("WidenConv1d", widen_conv1d, in_nhwc),
        Pass(
            "LowerQdqToInt8",
            _lower_qdq_to_int8,
            written_in=lower_qdq_to_int8,
            after={"WidenConv1d": "it handles two-dimensional convolutions only"},
        ),
        of_module("DropEmptyTensors", drop_empty_tensors),
        Pass(
            "SplitConvTransposeByPhase",
            _separate_phases,
            written_in=split_conv_transpose_by_phase,
            after={"LowerQdqToInt8": "that pass lowers quantised transposed convolutions"},
        ),
        of_module(
            "FlattenConv3d",
            flatten_conv3d,
            in_nhwc,
            after={"SplitConvTransposeByPhase": "phases may be three-dimensional convolutions"},
        ),
        of_target(
            "DropPaddedTaps",
            drop_padded_taps,
            after={
                "LowerQdqToInt8": "it takes integer convolutions as they are",
                "FlattenConv3d": "that pass pads the depth axis itself",
            },
            before={"DecomposeAndFold": "that pass computes the parts of constant weights"},
        ),
        of_module(
            "DecomposeAndFold",
            decompose_and_fold,
            after={"LowerQdqToInt8": "dequantised weights would be folded to floats"},
        ),
        of_module("OneHotToTake", one_hot_to_take, after={"DecomposeAndFold": "it looks for constant weights"}),
        Pass(
            "ScalarConstants",
            lambda mod, lowering: make_scalar_constants(mod, quantised=lowering.quantised),
            written_in=make_scalar_constants,
            after={"DecomposeAndFold": "it looks for constants"},
        ),
        of_module("ScatterToSelect", scatter_to_select, after={"DecomposeAndFold": "it looks for constant indices"}),
        of_target("WriteScatters", write_scatters, after={"ScatterToSelect": "it writes one row better"}),
        of_module("FindSoftmax", find_softmax),
        Pass(
            "FuseAttention",
            _fuse_attention,
            written_in=fuse_attention,
            after={"FindSoftmax": "it finds attention by its softmax"},
        ),
        of_module(
            "JoinResiduals",
            join_residuals,
            after={"FuseAttention": "it moves the reshapes that FuseAttention looks for"},
        ),
        of_target("LowerPrefixSums", lower_prefix_sums),
        of_target(
            "BlockTopK",
            block_top_k,
            on_gpu,
            after={"DecomposeAndFold": "it folds a TopK of constants by the importer's function, which the host runs"},
        ),
        of_module("BlockCounted", block_counted, on_gpu),
        of_target(
            "BlockRecurrences",
            block_recurrences,
            on_gpu,
            after={"DecomposeAndFold": "it folds a recurrence of constants by the importer's function"},
        ),
        of_target(
            "PadMatmulColumns",
            pad_matmul_columns,
            on_cpu,
            after={"FuseAttention": "that pass finds no attention around padded products"},
        ),
    ),
)
"""The rewrites of operators that do not depend on the layout."""
LAYOUT = Phase(
    "layout",
    (
        from_tvm(lambda: relax.transform.ConvertLayout(_NHWC), in_nhwc_throughout, name="ConvertLayout"),
        of_module("ConvertEachLayout", convert_each_layout, in_nhwc_each),
        of_target(
            "InterleaveConvTransposePhases",
            interleave_conv_transpose_phases,
            in_nhwc,
            after={"ConvertLayout": "its function is written for NHWC"},
        ),
        of_module(
            "PatchConvTransposeToConv",
            patch_conv_transpose_to_conv,
            in_nhwc,
            after={"ConvertLayout": "it writes a convolution in NHWC"},
        ),
        Pass("SplitConvTransposeLeft", _separate_left, (in_nchw,), written_in=split_conv_transpose_by_phase),
        of_module("SinkTransposes", sink_transposes, in_nhwc, after={"ConvertLayout": "that pass adds the transposes"}),
        of_module("FoldConstants", fold_constants, in_nhwc, after={"SinkTransposes": "that pass transposes weights"}),
    ),
)
"""The conversion of convolutions to the layout that `lower` tries."""
PRODUCTS = Phase(
    "products",
    (
        Pass(
            "ApplyWinograd",
            lambda mod, lowering: apply_winograd(mod, lowering.algorithms, lowering.target),
            (on_cpu, in_nhwc),
            written_in=apply_winograd,
            after={"FoldConstants": "the weights must be constants in HWIO"},
            before={"PadConvChannels": "a convolution's signature has the channel counts of the model"},
        ),
        of_target(
            "PadInt8Channels",
            pad_int8_channels,
            on_cpu,
            in_nhwc,
            before={"LowerDotProducts": "that pass packs whole vectors of channels"},
        ),
        of_target(
            "ByteLookupTables",
            use_byte_lookup_tables,
            before={"LowerDotProducts": "that pass looks at the operators after a convolution"},
        ),
        of_target("LowerDotProducts", lower_dot_products, before={"SeparateGroups": "it lowers int8 groups itself"}),
        of_target("LowerRecurrences", lower_recurrences, on_cpu),
        of_target("SeparateGroups", separate_groups, on_cpu, in_nhwc),
        of_target("PadConvChannels", pad_conv_channels, on_cpu, in_nhwc),
        of_target("LowerToDp4a", lower_to_dp4a, on_gpu),
    ),
)
"""The lowering of convolutions and matrix products to the instructions of the target."""
TENSOR_IR = Phase(
    "TensorIR",
    (
        of_module("CanonicalizeVarNames", canonicalize_var_names, before={"LegalizeOps": "it names blocks after them"}),
        of_target("SplitConcatenations", split_concatenations),
        from_tvm(relax.backend.DispatchSampling),
        from_tvm(relax.backend.DispatchSortScan),
        of_module(
            "AnnotateExactProducts",
            annotate_exact_products,
            allows_tf32,
            before={"LegalizeOps": "functions have no `out_dtype`"},
        ),
        from_tvm(relax.transform.LegalizeOps),
        of_module("OrderExtremes", order_extremes, on_gpu, before={"FuseOps": "it looks at a function's only block"}),
        from_tvm(relax.transform.AnnotateTIROpPattern),
        from_tvm(relax.transform.FoldConstant),
        of_module("FuseNormalization", fuse_normalization, on_cpu, before={"FuseOps": "that pass leaves groups alone"}),
        from_tvm(relax.transform.FuseOps),
        of_target("SplitWideFunctions", split_wide_functions),
        of_module("SplitDeepFunctions", split_deep_functions, before={"FuseTIR": "it divides FuseOps' functions"}),
        from_tvm(relax.transform.FuseTIR),
        # Before Tasks are extracted: a reshape is free at run time and not worth a search.
        from_tvm(relax.transform.RewriteDataflowReshape),
        from_tvm(relax.transform.DeadCodeElimination),
        of_module("CheckLayout", _check_layout, in_nhwc),
    ),
)
"""The passes that turn operators into TensorIR functions and fuse them."""
RECORDS = Phase(
    "records",
    (
        of_module("CheckRuntimeCalls", check_runtime_calls),
        of_module("AttachWinogradEpilogues", attach_epilogues, on_cpu),
        from_tvm(relax.transform.AttachAttrLayoutFreeBuffers, on_cpu),
        of_module(
            "PinInitialValues",
            pin_initial_values,
            on_cpu,
            after={"AttachAttrLayoutFreeBuffers": "it removes buffers from that pass's list"},
        ),
        of_module("MarkTf32", mark_tf32, allows_tf32),
    ),
)
"""The last passes before records are applied: Task keys are computed from the functions that they return."""
LAYOUTS: Sequence[Layout] = ("NHWC", "NHWC each", "NCHW")
"""The layouts, in the order in which they are tried."""
_COSTS: Mapping[Layout, str] = {
    "NHWC each": "transposes around its convolutions",
    "NCHW": "its convolutions stay in NCHW",
}
"""The cost of a layout, for the note that the user gets if TVM has no code for the layouts before it."""
PHASES = (OPERATORS, LAYOUT, PRODUCTS, TENSOR_IR, RECORDS)


@dataclass(frozen=True)
class Lowered:
    """A module of fused TensorIR functions, ready for records, with its notes and choices."""

    mod: tvm.ir.IRModule
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    layout: str
    notes: tuple[str, ...] = ()
    convolutions: tuple[ConvolutionCall, ...] = ()
    """The convolutions that have a choice of algorithm."""


def lower(
    imported: ImportedModel,
    target: tvm.target.Target,
    layout: str | None = None,
    algorithms: Mapping[str, str] = MappingProxyType({}),
) -> Lowered:
    """Run the passes: rewrite operators, choose the convolutions' layout and algorithms, legalize and fuse.

    If ``layout`` is None, it is that of `default_layout`. If TVM cannot compute a graph in NHWC, the next of `LAYOUTS`
    is tried, and a note reports it.

    ``algorithms`` maps a convolution's signature to its algorithm; a convolution that is missing is computed directly.
    The same model, target, layout and algorithms give the same module in any process.
    Raises TvmbuildError with the name of the operator if TVM cannot compute the module in any layout.
    """
    prepare_compiler()
    wanted = next(each for each in LAYOUTS if each == (layout or default_layout(target, imported)))
    quantised = bool(operator_calls(imported.mod, "relax.quantize"))
    lowering = Lowering(target, wanted, algorithms, quantised, imported.tf32)
    with target:
        mod, lowering = _try_layouts(run_passes([OPERATORS], imported.mod, lowering), lowering)
        mod = run_passes([RECORDS], mod, lowering)
    notes, convolutions = read_notes(mod), read_convolutions(mod)
    bare = mod.without_attr(NOTES).without_attr(CHOICES)
    chosen = "NCHW" if lowering.layout == "NCHW" else "NHWC"
    return Lowered(bare, imported.inputs, imported.outputs, chosen, (*imported.notes, *notes), convolutions)


def _try_layouts(mod: tvm.ir.IRModule, lowering: Lowering) -> tuple[tvm.ir.IRModule, Lowering]:
    """Return the fused functions in the first layout that TVM has code for, and the lowering in that layout."""
    problem = ""
    for each in _list_layouts(mod, lowering):
        tried = replace(lowering, layout=each)
        noted = add_notes(mod, [f"{SLOW}{_COSTS[each]}: {problem}"] if problem else [])
        try:
            return run_passes([LAYOUT, PRODUCTS, TENSOR_IR], noted, tried), tried
        except LayoutUnsupported as error:
            problem = str(error)
        except PassError as error:
            problem = _explain(error, mod, tried)
    raise LayoutUnsupported(problem)


def _list_layouts(mod: tvm.ir.IRModule, lowering: Lowering) -> Sequence[Layout]:
    return LAYOUTS[LAYOUTS.index(lowering.layout) :] if operator_calls(mod, "relax.nn.conv2d") else ("NCHW",)


def _explain(error: PassError, mod: tvm.ir.IRModule, lowering: Lowering) -> str:
    """Return the reason why a pass failed if another layout is left to try; else raise the error for the user."""
    if lowering.layout == "NCHW":
        if not error.failed.is_tvms:
            raise error.error
        with name_culprit(mod, lambda part: _run_bare(part, lowering)):
            raise error.error
    if not error.failed.is_tvms:
        report_bug(f"the pass {error.failed.name}", error.error)
    return f"{error.failed.name} failed: {last_line(str(error.error)) or type(error.error).__name__}"


def _run_bare(mod: tvm.ir.IRModule, lowering: Lowering) -> tvm.ir.IRModule:
    try:
        return run_passes([TENSOR_IR], mod, lowering)
    except PassError as error:
        raise error.error from None
