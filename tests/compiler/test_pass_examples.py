# mypy: ignore-errors
"""Each pass turns its few lines of Before into After, in TVMScript."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from pass_examples import EXAMPLES, find_lowering
from tvm.script import ir as I
from tvm.script import relax as R

from tvmbuild.compiler.pipeline import PHASES

ROWS = {each.name: each for phase in PHASES for each in phase.passes}


def run(name: str) -> tvm.ir.IRModule:
    lowering = find_lowering(name)
    with lowering.target:
        return ROWS[name].run(EXAMPLES[name], lowering)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_pass_changes_its_example_and_nothing_else_after_that(name: str) -> None:
    once = run(name)
    if name == "CanonicalizeVarNames":
        assert "exponent" not in once.script()  # structural equality does not see the new names
        return
    assert not tvm_ffi.structural_equal(once, EXAMPLES[name])
    lowering = find_lowering(name)
    with lowering.target:
        tvm.ir.assert_structural_equal(ROWS[name].run(once, lowering), once, map_free_vars=True)


def test_sum_products_in_float32() -> None:
    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4, 64), "float16"), w: R.Tensor((64, 8), "float16")) -> R.Tensor((4, 8), "float16"):
            with R.dataflow():
                lv = R.matmul(x, w, out_dtype="float32")
                y = R.astype(lv, "float16")
                R.output(y)
            return y

    tvm.ir.assert_structural_equal(run("SumProductsInFloat32"), After)


def test_widen_conv1d() -> None:
    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((1, 4, 9), "float32"), w: R.Tensor((8, 4, 3), "float32")) -> R.Tensor(
            (1, 8, 9), "float32"
        ):
            with R.dataflow():
                pixels = R.reshape(x, (1, 4, 1, 9))
                weights = R.reshape(w, (8, 4, 1, 3))
                z = R.nn.conv2d(pixels, weights, padding=[0, 1, 0, 1])
                y = R.reshape(z, (1, 8, 9))
                R.output(y)
            return y

    tvm.ir.assert_structural_equal(run("WidenConv1d"), After)


def test_find_softmax() -> None:
    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 8), "float32"):
            with R.dataflow():
                y = R.nn.softmax(x, axis=1)
                R.output(y)
            return y

    tvm.ir.assert_structural_equal(run("FindSoftmax"), After)


def test_sink_transposes() -> None:
    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((1, 4, 4, 8), "float32")) -> R.Tensor((1, 4, 4, 8), "float32"):
            with R.dataflow():
                y = R.nn.relu(x)
                R.output(y)
            return y

    tvm.ir.assert_structural_equal(run("SinkTransposes"), After)


def test_scalar_constants() -> None:
    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((1, 8, 4, 4), "float32")) -> R.Tensor((1, 8, 4, 4), "float32"):
            with R.dataflow():
                y = R.add(x, R.const(1.0, "float32"))
                R.output(y)
            return y

    tvm.ir.assert_structural_equal(run("ScalarConstants"), After)


def test_join_residuals() -> None:
    weights = np.ones((8, 4), "float32")

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((6, 8), "float32"), r: R.Tensor((1, 6, 4), "float32")) -> R.Tensor((1, 6, 4), "float32"):
            with R.dataflow():
                p = R.matmul(x, R.const(weights))
                flat = R.reshape(r, (6, 4))
                s = R.add(p, flat)
                y = R.reshape(s, (1, 6, 4))
                R.output(y)
            return y

    tvm.ir.assert_structural_equal(run("JoinResiduals"), After)
