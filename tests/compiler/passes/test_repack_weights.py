"""Weights are repacked as by TVM's FoldConstant, which compiles each function by itself."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# TVM parses these annotations; Python does not evaluate them.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx_graphs import node
from tvm import relax
from tvm.script import ir as I  # noqa: N812 - as TVM's scripts are written
from tvm.script import relax as R  # noqa: N812
from tvm.script import tirx as T  # noqa: N812

from tvmbuild.compiler.apply import SCHEDULED
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.pass_manager import Lowering, run_phase
from tvmbuild.compiler.passes.fold_constants import repack_weights
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]


def fold_by_tvm(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    folded = relax.transform.CanonicalizeBindings()(relax.transform.FoldConstant()(mod))
    return relax.transform.DeadCodeElimination()(folded)


def test_the_module_is_that_of_fold_constant(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    random = np.random.RandomState(0)
    shapes = {"v": (32, 3, 3, 3), "w": (32, 1, 3, 3), "u": (64, 32, 1, 1), "m": (64, 48)}
    weights = {name: random.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        node("Conv", "x", "v", out="a", pads=[1, 1, 1, 1]),
        node("Conv", "a", "w", out="b", pads=[1, 1, 1, 1], group=32),
        node("Conv", "b", "u", out="c"),
        node("GlobalAveragePool", "c", out="d"),
        node("Flatten", "d", out="e"),
        node("MatMul", "e", "m"),
    ]
    lowered = lower(import_onnx(save_model(nodes, weights, (1, 3, 20, 20))), cpu)
    with cpu:
        scheduled = run_tir_passes(run_phase(SCHEDULED, lowered.mod, Lowering(cpu)), cpu)
        repacked = repack_weights(scheduled)
        assert len(operator_calls(repacked, "relax.call_tir")) < len(operator_calls(scheduled, "relax.call_tir"))
        tvm.ir.assert_structural_equal(repacked, fold_by_tvm(scheduled))
        assert repack_weights(repacked) is repacked


@I.ir_module
class Halves:
    @T.prim_func(private=True, s_tir=True)
    def halves_weight_prepack(  # noqa: ANN201
        x: T.Buffer((4, 2), "float16"),  # noqa: N805
        a: T.Buffer((4,), "float16"),
        b: T.Buffer((4,), "float16"),
    ):
        for i in range(4):
            with T.sblock("a"):
                at = T.axis.spatial(4, i)
                a[at] = x[at, 0]
        for i in range(4):
            with T.sblock("b"):
                at = T.axis.spatial(4, i)
                b[at] = x[at, 1]

    @T.prim_func(private=True, s_tir=True)
    def add(x: T.Buffer((4,), "float16"), y: T.Buffer((4,), "float16"), z: T.Buffer((4,), "float16")):  # noqa: ANN201, N805
        for i in range(4):
            with T.sblock("z"):
                at = T.axis.spatial(4, i)
                z[at] = x[at] + y[at]

    @R.function
    def main(x: R.Tensor((4,), "float16")):  # noqa: ANN201, N805
        cls = Halves
        with R.dataflow():
            halves = R.call_tir(
                cls.halves_weight_prepack,
                (R.const(np.arange(8, dtype="float16").reshape(4, 2), "float16"),),
                out_ty=[R.Tensor((4,), "float16"), R.Tensor((4,), "float16")],
            )
            first = R.call_tir(cls.add, (x, halves[0]), out_ty=R.Tensor((4,), "float16"))
            y = R.call_tir(cls.add, (first, halves[1]), out_ty=R.Tensor((4,), "float16"))
            R.output(y)
        return y


def test_a_function_may_repack_several_weights() -> None:
    repacked = repack_weights(Halves)
    calls = operator_calls(repacked, "relax.call_tir")
    for call, want in zip(calls, ([0, 2, 4, 6], [1, 3, 5, 7]), strict=True):
        np.testing.assert_array_equal(call.args[1].fields[1].value.numpy(), np.array(want, "float16"))
    assert {variable.name_hint for variable in repacked.functions} == {"add", "main"}
