# mypy: ignore-errors
"""Small networks for the passes whose effect a few lines can show.

The site shows each before and after its pass; tests/compiler/test_pass_examples.py compares both.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pass_manager import Lowering

HOST = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
ONE = np.ones((1,), "float32")
NUMBERS = np.arange(5)
TABLE = np.ones((5, 3), "float32")
WEIGHTS = np.ones((8, 4), "float32")
PATCHES = np.ones((4, 8, 2, 2), "float32")
ON_GPU = ("SumProductsInFloat32", "LowerPrefixSums")
"""Passes that CPUs do not have."""


@I.ir_module
class SumProductsInFloat32:
    @R.function
    def main(x: R.Tensor((4, 64), "float16"), w: R.Tensor((64, 8), "float16")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y


@I.ir_module
class WidenConv1d:
    @R.function
    def main(x: R.Tensor((1, 4, 9), "float32"), w: R.Tensor((8, 4, 3), "float32")):
        with R.dataflow():
            y = R.nn.conv1d(x, w, padding=[1, 1])
            R.output(y)
        return y


@I.ir_module
class DropEmptyTensors:
    @R.function
    def main(x: R.Tensor((2, 6), "float32")):
        with R.dataflow():
            parts = R.split(x, [6], axis=1)
            y = R.concat((parts[0], parts[1]), axis=1)
            R.output(y)
        return y


@I.ir_module
class FindSoftmax:
    @R.function
    def main(x: R.Tensor((2, 8), "float32")):
        with R.dataflow():
            m = R.max(x, axis=[1], keepdims=True)
            d = R.subtract(x, m)
            e = R.exp(d)
            s = R.sum(e, axis=[1], keepdims=True)
            y = R.divide(e, s)
            R.output(y)
        return y


@I.ir_module
class JoinResiduals:
    @R.function
    def main(x: R.Tensor((6, 8), "float32"), r: R.Tensor((1, 6, 4), "float32")):
        with R.dataflow():
            p = R.matmul(x, R.const(WEIGHTS))
            q = R.reshape(p, (1, 6, 4))
            y = R.add(q, r)
            R.output(y)
        return y


@I.ir_module
class FuseAttention:
    @R.function
    def main(
        q: R.Tensor((1, 2, 16, 8), "float32"),
        k: R.Tensor((1, 2, 8, 16), "float32"),
        v: R.Tensor((1, 2, 16, 8), "float32"),
    ):
        with R.dataflow():
            s = R.matmul(q, k)
            p = R.nn.softmax(s, axis=-1)
            y = R.matmul(p, v)
            R.output(y)
        return y


@I.ir_module
class OneHotToTake:
    @R.function
    def main(i: R.Tensor((4, 1), "int64")):
        with R.dataflow():
            e = R.equal(i, R.const(NUMBERS))
            h = R.astype(e, "float32")
            y = R.matmul(h, R.const(TABLE))
            R.output(y)
        return y


@I.ir_module
class ScalarConstants:
    @R.function
    def main(x: R.Tensor((1, 8, 4, 4), "float32")):
        with R.dataflow():
            y = R.add(x, R.const(ONE))
            R.output(y)
        return y


@I.ir_module
class PadMatmulColumns:
    @R.function
    def main(x: R.Tensor((4, 5), "float32")):
        with R.dataflow():
            y = R.matmul(x, R.const(TABLE))
            R.output(y)
        return y


@I.ir_module
class SinkTransposes:
    @R.function
    def main(x: R.Tensor((1, 4, 4, 8), "float32")):
        with R.dataflow():
            a = R.permute_dims(x, [0, 3, 1, 2])
            b = R.nn.relu(a)
            y = R.permute_dims(b, [0, 2, 3, 1])
            R.output(y)
        return y


@I.ir_module
class FlattenConv3d:
    @R.function
    def main(x: R.Tensor((1, 4, 2, 8, 8), "float32"), w: R.Tensor((8, 4, 2, 3, 3), "float32")):
        with R.dataflow():
            y = R.nn.conv3d(x, w)
            R.output(y)
        return y


@I.ir_module
class DropPaddedTaps:
    @R.function
    def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((8, 4, 3, 3), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w, padding=[12, 12, 12, 12], dilation=[12, 12])
            R.output(y)
        return y


@I.ir_module
class SplitConvTransposeByPhase:
    @R.function
    def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((4, 8, 4, 4), "float32")):
        with R.dataflow():
            y = R.nn.conv2d_transpose(x, w, strides=[2, 2], padding=[1, 1, 1, 1])
            R.output(y)
        return y


@I.ir_module
class LowerPrefixSums:
    @R.function
    def main(x: R.Tensor((1, 300), "float32")):
        with R.dataflow():
            y = R.cumsum(x, axis=1)
            R.output(y)
        return y


@I.ir_module
class ConvertEachLayout:
    @R.function
    def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((8, 4, 3, 3), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w)
            R.output(y)
        return y


@I.ir_module
class PatchConvTransposeToConv:
    @R.function
    def main(x: R.Tensor((1, 4, 8, 8), "float32")):
        with R.dataflow():
            y = R.nn.conv2d_transpose(x, R.const(PATCHES), strides=[2, 2])
            R.output(y)
        return y


@I.ir_module
class CanonicalizeVarNames:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            exponent = R.exp(x)
            y = R.add(exponent, x)
            R.output(y)
        return y


EXAMPLES: dict[str, tvm.ir.IRModule] = {
    name: value for name, value in list(globals().items()) if isinstance(value, tvm.ir.IRModule)
}


def find_lowering(name: str) -> Lowering:
    """Return a lowering that contains the pass."""
    if name in ON_GPU:
        return Lowering(tvm_target("cuda", FrozenMap({"arch": "sm_87"}), HOST))
    return Lowering(tvm_target("llvm", HOST, FrozenMap()), "NHWC each" if name == "ConvertEachLayout" else "NHWC")
