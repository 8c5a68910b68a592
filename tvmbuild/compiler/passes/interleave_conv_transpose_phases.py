"""Transposed convolutions in NHWC as one function that writes the sums of all phases to their interleaved places.

A phase is the set of outputs whose indices have the same remainder modulo the stride. Phases as channels of one
convolution would cost an additional pass that puts them in order, and every phase would get the window of the largest
phase: with a kernel of 3 x 3 and a stride of 2, 16 products instead of 9.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, topi

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, constant, int64, static_shape, wide
from tvmbuild.compiler.ir.obstacles import list_computed_weights, list_layouts, list_mixed_types
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.passes.convert_each_layout import TO_NCHW, TO_NHWC
from tvmbuild.compiler.remarks import is_missed
from tvmbuild.compiler.schedules.cpu.phases import TAPS

_OPERATOR, _NAME = "relax.nn.conv2d_transpose", "transposed_conv2d"


def interleave_conv_transpose_phases(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Rewrite each transposed convolution that `is_interleaved`, for a graph whose convolutions are in NHWC.

    The new function has a transpose on either side, which `sink_transposes` cancels with those of ConvertLayout.
    """
    if is_gpu(target) or not operator_calls(mod, _OPERATOR):
        return mod

    def rewrite(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        if not is_call(call, _OPERATOR) or is_missed(_list_obstacles(call, target)):
            return None
        data = builder.emit(relax.op.permute_dims(call.args[0], TO_NHWC))
        batch, channels, height, width = static_shape(call) or ()
        made = _Interleaved.of(call)
        weights = constant(made.arrange(call.args[1].value.numpy()))
        output = relax.TensorType((batch, height, width, channels), str(call.ty.dtype))
        function = builder.add_func(made.write(static_shape(data) or (), weights, output), _NAME)
        return relax.op.permute_dims(builder.emit(relax.call_tir(function, [data, weights], output)), TO_NCHW)

    return rewrite_calls(mod, rewrite)


def is_interleaved(call: relax.Call, target: tvm.target.Target) -> bool:
    """Return whether the call is a transposed convolution with stride, constant weights and channels in full vectors.

    With other channel counts, one convolution that computes the phases as channels is faster.
    """
    is_one = not is_gpu(target) and is_call(call, _OPERATOR)
    return is_one and next(_list_obstacles(call, target), None) is None


def _list_obstacles(call: relax.Call, target: tvm.target.Target) -> Iterator[str]:
    attributes, (data, weights) = call.attrs, call.args
    shape = static_shape(weights)
    yield from list_computed_weights(call)
    if static_shape(data) is None or shape is None:
        yield "its shape is not known"
        return
    yield from list_mixed_types(call)
    yield from list_layouts(call, "NCHW", "IOHW", out="NCHW")
    strides, dilations = ([int(each) for each in some] for some in (attributes.strides, attributes.dilation))
    inputs, own, *kernel = shape
    if max(strides) == 1:
        yield "it has no stride"
    if not all(dilation == 1 or extent == 1 for dilation, extent in zip(dilations, kernel, strict=True)):
        yield f"its kernel has a dilation of {max(dilations)}"
    groups = int(attributes.groups)
    vector = groups if own == 1 and groups == inputs else own
    lanes = describe_machine(target).lanes(tvm.DataType(str(data.ty.dtype)).bits)
    if not _fills_vectors(vector, lanes):
        yield f"{vector} channels leave too much of vectors of {lanes} empty"


def _fills_vectors(channels: int, lanes: int) -> bool:
    """Return whether the channels are a multiple of half a vector, or whole vectors need at most 25% more channels."""
    return channels % max(1, lanes // 2) == 0 or (
        channels > lanes and 4 * -(-channels // lanes) * lanes <= 5 * channels
    )


@dataclass(frozen=True)
class _Way:
    """One direction, rows or columns. A place in it computes the outputs ``stride`` · place + phase of all phases."""

    stride: int
    kernel: int
    padding: int
    inputs: int
    outputs: int

    @property
    def places(self) -> int:
        """The number of places; the last place may have phases beyond the output."""
        return -(-self.outputs // self.stride)

    @property
    def taps(self) -> list[int]:
        """The number of inputs in the sum of an output, for each phase."""
        return [len(range(self._first_weight(phase), self.kernel, self.stride)) for phase in range(self.stride)]

    @property
    def before(self) -> int:
        """The number of zeros to pad before the first input."""
        return max(0, -min(self._first_input(phase) for phase in range(self.stride)))

    @property
    def after(self) -> int:
        """The number of zeros to pad after the last input, including those that only weights of 0 multiply."""
        last = self.places - 1 + max(self._first_input(phase) for phase in range(self.stride)) + max(self.taps) - 1
        return max(0, last - (self.inputs - 1))

    def _first_weight(self, phase: int) -> int:
        return (phase + self.padding) % self.stride

    def _first_input(self, phase: int) -> int:
        """Return the index of the input that the first tap of place 0 reads; a negative index is in the padding."""
        return (phase + self.padding) // self.stride - max(0, self.taps[phase] - 1)

    def find_input(self, place: Any, phase: Any) -> Any:
        """Return the index in the padded input that the first tap of a place and phase reads, as an expression."""
        starts = [self._first_input(each) + self.before for each in range(self.stride)]
        steps = {after - before for before, after in itertools.pairwise(starts)}
        if len(steps) <= 1:
            return place + starts[0] + phase * (steps or {0}).pop()
        moved = phase + self.padding
        taps = te.max((self.kernel - 1 - moved % self.stride) // self.stride, 0)
        return place + moved // self.stride - taps + self.before

    def arrange(self, weights: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
        """Return the weights with two axes, phases and taps, in place of the kernel's ``axis``; missing taps are 0."""
        most = max(self.taps)
        whole = np.zeros((*weights.shape[:axis], self.stride, most, *weights.shape[axis + 1 :]), weights.dtype)
        given, made = np.moveaxis(weights, axis, 0), np.moveaxis(whole, (axis, axis + 1), (0, 1))
        for phase, taps in enumerate(self.taps):
            for tap in range(taps):
                made[phase, tap] = given[self._first_weight(phase) + self.stride * (taps - 1 - tap)]
        return whole


@dataclass(frozen=True)
class _Interleaved:
    ways: Sequence[_Way]
    groups: int
    own: int
    """The number of output channels of a group."""

    @classmethod
    def of(cls, call: relax.Call) -> _Interleaved:
        """Read the attributes and shapes of a transposed convolution."""
        attributes, (_, own, *kernel) = call.attrs, static_shape(call.args[1]) or ()
        sizes = zip((static_shape(call.args[0]) or ())[2:], (static_shape(call) or ())[2:], strict=True)
        given = zip(attributes.strides, kernel, attributes.padding[:2], sizes, strict=True)
        ways = [_Way(int(stride), extent, int(padding), *size) for stride, extent, padding, size in given]
        return cls(ways, int(attributes.groups), own)

    def arrange(self, weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the weights as row phases x column phases x row taps x column taps x inputs x groups x outputs.

        Inputs and outputs are those of one group.
        """
        inputs = weights.shape[0] // self.groups
        apart = weights.reshape(self.groups, inputs, *weights.shape[1:])
        for at, way in reversed(list(enumerate(self.ways))):
            apart = way.arrange(apart, 3 + at)
        ordered = apart.transpose(3, 5, 4, 6, 1, 0, 2)
        return np.ascontiguousarray(ordered)

    def write(self, shape: Sequence[int], weights: relax.Expr, output: relax.TensorType) -> tvm.tirx.PrimFunc:
        """Write the TensorIR function for NHWC data of this shape."""
        rows, columns = self.ways
        data = te.placeholder(wide(*shape), str(weights.ty.dtype), name="data")
        kernel = te.placeholder(weights.ty.shape.values, str(weights.ty.dtype), name="weights")
        sides = [0, rows.before, columns.before, 0], [0, rows.after, columns.after, 0]
        padded = topi.nn.pad(data, *sides) if any(map(sum, sides)) else data
        down, right, k = (
            te.reduce_axis((int64(0), extent), name=name)
            for extent, name in zip(kernel.shape[2:5], ("ry", "rx", "rc"), strict=True)
        )
        inputs, dtype = int(kernel.shape[4]), str(output.dtype)

        def product(*at: Any) -> Any:
            n, y, i, x, j, g, c = at
            read = padded[n, rows.find_input(y, i) + down, columns.find_input(x, j) + right, g * inputs + k]
            weight = kernel[i, j, down, right, k, g, c]
            return te.sum(read.astype(dtype) * weight.astype(dtype), axis=[down, right, k])

        places = (rows.places, rows.stride, columns.places, columns.stride)
        whole = te.compute(
            wide(shape[0], *places, self.groups, self.own),
            product,
            name=_NAME,
            attrs={TAPS: [way.taps if len(set(way.taps)) > 1 else [] for way in self.ways]},
        )

        def order(n: Any, y: Any, x: Any, c: Any) -> Any:
            places = (y // rows.stride, y % rows.stride, x // columns.stride, x % columns.stride)
            return whole(n, *places, c // self.own, c % self.own)

        ordered = te.compute(output.shape.values, order, name="ordered")
        function = te.create_prim_func([data, kernel, ordered])
        return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)
