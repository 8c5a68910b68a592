"""The rewrite of convolutions to Winograd's algorithm, and the choice of the convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.obstacles import list_nhwc_obstacles
from tvmbuild.compiler.ir.rewrite import rewrite_main
from tvmbuild.compiler.kernels.winograd.input_transform import make_input_transform
from tvmbuild.compiler.kernels.winograd.rows import make_rows, pays_in_rows
from tvmbuild.compiler.kernels.winograd.transforms import (
    Tiling,
    make_inverse_transform,
    make_products,
    transform_weights,
)
from tvmbuild.compiler.machine.machine import describe_machine, power_of_two_divisor
from tvmbuild.compiler.passes.pad_conv_channels import is_float_convolution, padded_channels
from tvmbuild.compiler.passes.winograd.choices import keep_choices, read_choices
from tvmbuild.compiler.remarks import is_missed, missed

TILES: Mapping[str, int] = {"winograd2": 2, "winograd4": 4}
"""A Winograd algorithm → the number of rows, which is also the number of columns, of outputs in a tile."""
MIN_CHANNELS = 16
"""The smallest number of channels; with fewer, the transforms cost more than the products save."""
MIN_LANES = 4
"""The smallest number of channels in a vector; with fewer, the transforms take as long as the convolution."""
VECTORS_IN_PANEL = 4


@dataclass(frozen=True)
class Convolution:
    """An NHWC convolution with a kernel of 3 x 3, stride 1 and constant float32 weights.

    Its fields decide which algorithm is best.
    """

    shape: tuple[int, int, int, int]
    """The shape of the input: N, H, W, C."""
    channels: int
    """The number of output channels."""
    padding: tuple[int, int, int, int]
    """The padding: top, left, bottom, right."""

    @property
    def signature(self) -> str:
        """The convolution's name in a map of signatures to algorithms."""
        extents = "x".join(map(str, self.shape))
        return f"{extents} to {self.channels}, padding {' '.join(map(str, self.padding))}"

    def tile(self, algorithm: str, target: tvm.target.Target) -> Tiling:
        """Return the tiling of the convolution for a Winograd algorithm, with vectors of the target."""
        width = describe_machine(target).lanes(32)
        inputs = power_of_two_divisor(self.shape[3], width)
        lanes = inputs if inputs >= MIN_LANES else width, power_of_two_divisor(self.channels, width)
        panel = power_of_two_divisor(padded_channels(self.channels, width), VECTORS_IN_PANEL * width)
        return Tiling(TILES[algorithm], self.shape, self.channels, self.padding, lanes, panel)


def find_convolution(call: relax.Call) -> Convolution | None:
    """Return the convolution of a call, if Winograd's algorithm can compute it; else None."""
    if not is_float_convolution(call) or _is_pointwise(call) or is_missed(_list_obstacles(call)):
        return None
    shape, kernel = static_shape(call.args[0]) or (), static_shape(call.args[1]) or ()
    top, left, bottom, right = (int(each) for each in call.attrs.padding)
    return Convolution((shape[0], shape[1], shape[2], shape[3]), kernel[3], (top, left, bottom, right))


def _is_pointwise(call: relax.Call) -> bool:
    """Return whether the kernel is 1 x 1: a matrix product has no work that an algorithm could share."""
    kernel = zip(str(call.attrs.kernel_layout), static_shape(call.args[1]) or (), strict=False)
    return all(extent == 1 for axis, extent in kernel if axis in "HW")


def _list_obstacles(call: relax.Call) -> Iterator[str]:
    yield from list_nhwc_obstacles(call)
    (rows, columns, inputs, outputs), output = static_shape(call.args[1]) or (), static_shape(call)
    if str(call.args[1].ty.dtype) != "float32":
        yield f"its weights are of {call.args[1].ty.dtype}"
    if int(call.attrs.groups) > 1:
        yield "it has groups"
    if (rows, columns) != (3, 3):
        yield f"its kernel is {rows} x {columns}, not 3 x 3"
    for name, steps in (("strides", call.attrs.strides), ("dilations", call.attrs.dilation)):
        if {int(each) for each in steps} != {1}:
            yield f"its {name} are {' x '.join(str(int(each)) for each in steps)}"
    if min(inputs, outputs) < MIN_CHANNELS:
        yield f"it has fewer than {MIN_CHANNELS} channels: {inputs} to {outputs}"
    if output is None or min(output[1:3]) < min(TILES.values()):
        yield "its output is smaller than a tile"
    if outputs % MIN_LANES:
        yield f"{outputs} channels fill no vectors of {MIN_LANES}"


@dataclass(frozen=True)
class ConvolutionCall:
    """A convolution of ``main`` that has a choice of algorithm."""

    convolution: Convolution
    weights: tvm.runtime.Tensor
    """The weights in the module: HWIO, or transformed. Later passes keep the same tensor object."""


def read_convolutions(mod: tvm.ir.IRModule) -> tuple[ConvolutionCall, ...]:
    """Return the convolutions that have a choice of algorithm, in program order, with the weights of the module."""
    found = []
    for shape, channels, padding, weights in read_choices(mod):
        n, y, x, c = map(int, shape)
        top, left, bottom, right = map(int, padding)
        found.append(ConvolutionCall(Convolution((n, y, x, c), int(channels), (top, left, bottom, right)), weights))
    return tuple(found)


def apply_winograd(mod: tvm.ir.IRModule, algorithms: Mapping[str, str], target: tvm.target.Target) -> tvm.ir.IRModule:
    """Compute each convolution by its algorithm in ``algorithms`` (signature → algorithm), or else directly.

    A Winograd convolution becomes one function, or three if its weights are large, each a Task: transform of the input,
    matrix products, inverse transform. The last function includes the elementwise operators after it. This pass also
    transforms the weights, and lists the convolutions that have a choice in an attribute of the module
    (`read_convolutions`).
    """
    rewriter = _ApplyWinograd(mod, algorithms, target)
    rewritten = rewrite_main(mod, rewriter)
    found = [(each.convolution, each.weights) for each in rewriter.found]
    choices = [[each.shape, each.channels, each.padding, weights] for each, weights in found]
    return keep_choices(rewritten, choices)


@mutator
class _ApplyWinograd(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, algorithms: Mapping[str, str], target: tvm.target.Target) -> None:
        super().__init__(mod)
        self._algorithms = algorithms
        self._target = target
        self.found: list[ConvolutionCall] = []

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        convolution = find_convolution(call)
        if convolution is None:
            return super().visit_call_(call)
        algorithm = self._algorithms.get(convolution.signature, "direct")
        if algorithm not in TILES:
            missed("no algorithm but the direct one is chosen for it")
            self.found.append(ConvolutionCall(convolution, call.args[1].value))
            return super().visit_call_(call)
        tiling = convolution.tile(algorithm, self._target)
        data = self.visit_expr(call.args[0])
        weights = constant(transform_weights(call.args[1].value.numpy(), tiling))
        self.found.append(ConvolutionCall(convolution, weights.value))
        if pays_in_rows(tiling):
            function = make_rows(tiling, describe_machine(self._target))
            return self._call(function, f"winograd{tiling.m}_rows", [data, weights])
        inputs = self._emit(make_input_transform(tiling), f"winograd{tiling.m}_input", [data])
        products = self._emit(make_products(tiling), f"winograd{tiling.m}_products", [inputs, weights])
        return self._call(make_inverse_transform(tiling), f"winograd{tiling.m}_inverse", [products])

    def _emit(self, function: tirx.PrimFunc, name: str, arguments: list[relax.Expr]) -> relax.Expr:
        return self.builder_.emit(self._call(function, name, arguments))

    def _call(self, function: tirx.PrimFunc, name: str, arguments: list[relax.Expr]) -> relax.Expr:
        shape = [int(extent) for extent in function.params[-1].ty.shape]
        variable = self.builder_.add_func(function.without_attr("global_symbol"), name)
        return relax.call_tir(variable, arguments, relax.TensorType(shape, "float32"))


# The algorithm of a convolution without measurements, by an estimate of each algorithm's time over the direct one.
# Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, count the multiplications. The time of the
# transforms was fitted to 25 shapes, timed by rule on a CPU with AVX2 (docs/notebook/by-hand.md), and agrees with the
# results of searches with AVX-512.

DIRECT = "direct"
WORTH = 0.82
"""The largest estimated time, as a fraction of the direct time, that is worth larger weights and less exact sums."""
TRANSFORMING: Mapping[str, float] = {"winograd2": 3.5, "winograd4": 5.0}
"""An algorithm → the cost of transforming one pixel of a vector of channels, in multiply-adds of vectors, for each lane
of a full vector. Loads and stores bound this cost, and wider vectors do not speed them up as they do products."""
READING: Mapping[str, int] = {"winograd2": 16 << 10, "winograd4": 8 << 10}
"""An algorithm → the largest number of bytes of transformed weights for each output pixel; with more, reading them
takes the time that the products save."""


def choose_algorithm(convolution: Convolution, target: tvm.target.Target) -> str:
    """Return the algorithm with the lowest estimated time, or `direct` if all estimates are above `WORTH`."""
    estimates = {name: _estimate(convolution, name, target) for name in TILES}
    best = min(estimates, key=lambda name: estimates[name])
    return best if estimates[best] <= WORTH else DIRECT


def _estimate(convolution: Convolution, algorithm: str, target: tvm.target.Target) -> float:
    """Return the algorithm's time divided by that of the direct sum, or infinity if its weights are too large."""
    images, rows, columns, inputs = convolution.shape
    top, left, bottom, right = convolution.padding
    rows, columns, outputs = rows + top + bottom - 2, columns + left + right - 2, convolution.channels
    m = TILES[algorithm]
    window, products = (m + 2) ** 2, inputs * outputs
    if 4 * window * products > READING[algorithm] * images * rows * columns:
        return float("inf")
    computed = -(-rows // m) * -(-columns // m) * m * m / (rows * columns)  # the last tiles reach beyond the picture
    full = describe_machine(target).lanes(32)
    lanes = convolution.tile(algorithm, target).lanes  # fewer where channels fill no vector
    vectors = inputs / lanes[0] + outputs / lanes[1]
    return computed * (window / (m * m) * products + TRANSFORMING[algorithm] * full * full * vectors) / (9 * products)
