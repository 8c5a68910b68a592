"""The one pipeline that tuning extracts its Tasks from and that compiling applies records to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.importer import ImportedModel
from tvmbuild.compiler.target import is_gpu
from tvmbuild.package.metadata import TensorInfo

Layout = Literal["NHWC", "NCHW"]

_CPU_CONVOLUTION = {"relax.nn.conv2d": ["NHWC", "HWIO"]}
_ANY_NAME = "lv"


@dataclass(frozen=True)
class Lowered:
    """A module of fused TensorIR functions, ready for records, and how it came to be."""

    mod: tvm.ir.IRModule
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    layout: Layout
    notes: tuple[str, ...] = ()


def lower(imported: ImportedModel, target: tvm.target.Target, layout: Layout | None = None) -> Lowered:
    """Fold constants, choose the convolutions' layout, legalize and fuse.

    ``layout`` None means the default: NHWC on CPUs, NCHW on GPUs. Where TVM cannot convert the graph to NHWC it stays
    NCHW and a note says so. The same model, target and layout give the same module in any process.
    """
    with target:
        mod = _prepare(imported.mod)
        chosen = layout or default_layout(target)
        notes: tuple[str, ...] = ()
        if chosen == "NHWC" and _has_convolution(mod):
            mod, chosen, notes = _to_nhwc(mod)
        elif chosen == "NHWC":
            chosen = "NCHW"
        mod = _anonymise(mod)
        mod = _fuse(mod)
        if not is_gpu(target):
            mod = relax.transform.AttachAttrLayoutFreeBuffers()(mod)
    return Lowered(mod, imported.inputs, imported.outputs, chosen, notes)


def default_layout(target: tvm.target.Target) -> Layout:
    """Return the layout of a cell for which none was chosen: CPU convolutions tune far better in NHWC."""
    return "NCHW" if is_gpu(target) else "NHWC"


def _prepare(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    return tvm.transform.Sequential(
        [
            relax.transform.DecomposeOpsForInference(),
            relax.transform.CanonicalizeBindings(),
            relax.transform.FoldConstant(),
            relax.transform.DeadCodeElimination(),
        ]
    )(mod)


def _to_nhwc(mod: tvm.ir.IRModule) -> tuple[tvm.ir.IRModule, Layout, tuple[str, ...]]:
    convert = tvm.transform.Sequential(
        [relax.transform.ConvertLayout(_CPU_CONVOLUTION), relax.transform.FoldConstant()]
    )
    try:
        return convert(mod), "NHWC", ()
    except (tvm.error.InternalError, ValueError, TypeError, RuntimeError) as error:
        # ConvertLayout has bugs on some graphs; a slower layout is better than no package.
        lines = [line for line in str(error).splitlines() if line.strip()]
        return mod, "NCHW", (f"layout NCHW: ConvertLayout failed: {lines[-1].strip()[:200] if lines else error!r}",)


def _has_convolution(mod: tvm.ir.IRModule) -> bool:
    found: list[bool] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op) and expr.op.name == "relax.nn.conv2d":
            found.append(True)

    relax.analysis.post_order_visit(mod["main"], visit)
    return bool(found)


def _fuse(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    return tvm.transform.Sequential(
        [
            relax.backend.DispatchSampling(),
            relax.backend.DispatchSortScan(),
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            # Before Tasks are seen: a reshape is free at run time and not worth a search.
            relax.transform.RewriteDataflowReshape(),
            relax.transform.DeadCodeElimination(),
        ]
    )(mod)


def _anonymise(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Give every Relax variable of ``main`` one name.

    LegalizeOps names blocks after variables (``lv235_red``) and a trace finds blocks by name; without this a trace of
    one model fails on the equal Task of another.
    """
    renamed = _Renamer(mod)
    function = renamed.visit_expr(mod["main"])
    result = tvm.ir.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    result.update_func(result.get_global_var("main"), function)
    return result


@mutator
class _Renamer(PyExprMutator):  # type: ignore[misc]
    def visit_var_def_(self, var: relax.Var) -> relax.Var:
        return self._rename(var, relax.Var(_ANY_NAME, var.ty))

    def visit_dataflow_var_def_(self, var: relax.Var) -> relax.Var:
        return self._rename(var, relax.DataflowVar(_ANY_NAME, var.ty))

    def _rename(self, var: relax.Var, new: relax.Var) -> relax.Var:
        self.set_var_remap(var, new)
        return new
