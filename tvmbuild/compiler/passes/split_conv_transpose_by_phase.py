"""Transposed convolutions as convolutions: each phase of the stride has its own channels, put in order afterwards.

Output ``stride · m + phase`` is a sum over the inputs near ``m``, with the weights that belong to this phase. TVM's own
code also adds up the zeros between the inputs, and computes each element by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import tvm
from tvm import relax

from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.obstacles import list_layouts, list_mixed_types
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.remarks import is_missed, missed

Emit = Callable[[relax.Expr], relax.Expr]
_TILES = (6, 7, 8)
"""The numbers of neighbouring pixels of a row whose sums a CPU keeps in registers."""


@dataclass(frozen=True)
class Direction:
    """The relation of outputs to inputs in one direction, rows or columns."""

    stride: int
    taps: int
    """The largest number of inputs in the sum of an output."""
    before: int
    """The number of inputs to pad before the first; if negative, the number of first inputs that no output reads."""
    after: int
    cropped: int
    """The number of outputs to crop before the first."""
    dilation: int = 1


@dataclass(frozen=True)
class Window:
    """The attributes of a transposed convolution in one direction."""

    kernel: int
    stride: int
    padding: int
    dilation: int = 1


def describe_direction(window: Window, inputs: int, outputs: int) -> Direction:
    """Return the relation of outputs to inputs in one direction; without a stride the taps keep their dilation."""
    kernel, stride, padding, dilation = window.kernel, window.stride, window.padding, window.dilation
    taps, first = math.ceil(((kernel - 1) * dilation + 1) / stride), padding // stride
    last = (padding + outputs - 1) // stride
    before, after, cropped = taps - 1 - first, last - (inputs - 1), padding - first * stride
    if stride == 1:
        return Direction(stride, kernel, before, after, cropped, dilation)
    return Direction(stride, taps, before, after, cropped)


def split_conv_transpose_by_phase(
    mod: tvm.ir.IRModule, is_left: Callable[[relax.Call], bool] = lambda _: False
) -> tvm.ir.IRModule:
    """Rewrite floating-point transposed convolutions of known shapes, except those whose windows do not overlap.

    Transposed convolutions without overlap become matrix products in NHWC (`patch_conv_transpose_to_conv`).
    A call stays as it is if ``is_left`` returns True for it.
    """

    def rewrite(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        convolve = _CONVOLUTIONS.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        if convolve is None:
            return None
        if is_left(call):
            return missed("it waits for NHWC, where its phases are interleaved")
        return _replace(builder, call, convolve)

    return rewrite_calls(mod, rewrite)


def _replace(builder: relax.BlockBuilder, call: relax.Call, convolve: Callable[..., relax.Expr]) -> relax.Expr | None:
    shape, weights, output = (static_shape(each) for each in (*call.args[:2], call))
    if shape is None or weights is None or output is None:
        return missed("its shape is not known")
    if is_missed(_list_obstacles(call, weights)):
        return None
    attributes, rank = call.attrs, len(shape) - 2
    windows = [
        Window(*map(int, each))
        for each in zip(weights[2:], attributes.strides, attributes.padding[:rank], attributes.dilation, strict=True)
    ]
    ways = [describe_direction(*each) for each in zip(windows, shape[2:], output[2:], strict=True)]
    if any(extent + min(0, way.before) + min(0, way.after) < 1 for way, extent in zip(ways, shape[2:], strict=True)):
        return missed("its padding crops all that some input adds to")
    ways[-1] = _widen(ways[-1], shape[-1])
    made = partial(convolve, out_dtype=attributes.out_dtype)
    transposed = _Transposed(builder.emit, made, ways, int(attributes.groups))
    return transposed.compute(call.args[0], call.args[1], [each.dilation for each in windows], output)


def _widen(way: Direction, inputs: int) -> Direction:
    """Extend the columns so that the last register tiles are whole; the additional columns are cropped."""
    count = inputs + way.before + way.after - (way.taps - 1) * way.dilation
    if way.stride == 1 or count < min(_TILES):
        return way
    more = next(each for each in itertools.count() if any((count + each) % tile == 0 for tile in _TILES))
    return replace(way, after=way.after + more)


def _list_obstacles(call: relax.Call, weights: Sequence[int]) -> Iterator[str]:
    attributes = call.attrs
    order = "DHW"[3 - len(weights) + 2 :]
    yield from list_mixed_types(call)
    yield from list_layouts(call, f"NC{order}", f"IO{order}")
    if (
        len(weights) == 4
        and isinstance(call.args[1], tvm.ir.GenericConst)
        and list(weights[2:]) == [int(each) for each in attributes.strides]
        and not any(int(each) for each in (*attributes.padding, *attributes.output_padding))
        and {int(each) for each in (*attributes.dilation, attributes.groups)} == {1}
    ):
        yield "its windows do not overlap: it may be one product of matrices"


@dataclass(frozen=True)
class _Transposed:
    emit: Emit
    convolve: Callable[..., relax.Expr]
    ways: Sequence[Direction]
    groups: int

    def compute(
        self, data: relax.Expr, weights: relax.Expr, dilations: Sequence[int], output: Sequence[int]
    ) -> relax.Expr:
        """Compute the transposed convolution; ``data`` has the axes N, C and one for each direction.

        ``output`` is the shape of the result, with the same axes.
        """
        inputs, own = static_shape(weights)[:2]  # type: ignore[index]
        phases = [way.stride for way in self.ways]
        apart = self._take_apart(weights, dilations)
        if own == 1 and self.groups == inputs > 1:
            # The channels fill vectors: each phase is a depthwise convolution.
            made = [self._convolve(data, self._kernel(apart, at)) for at in itertools.product(*map(range, phases))]
            total = self.emit(relax.op.concat(made, axis=1)) if len(made) > 1 else made[0]
            return self._put_in_order(total, [1, *phases, inputs], output)
        return self._put_in_order(self._convolve(data, self._kernels(apart)), [self.groups, *phases, own], output)

    def _take_apart(self, weights: relax.Expr, dilations: Sequence[int]) -> relax.Expr:
        """Return the weights as inputs x outputs x (taps in reverse order x phases, for each direction)."""
        shape = list(static_shape(weights) or ())
        for at, (way, dilation) in enumerate(zip(self.ways, dilations, strict=True), start=2):
            if dilation > way.dilation:
                weights = self._spread(weights, at, dilation)
                shape[at] = shape[at] * dilation
            if shape[at] > way.taps * way.stride:
                shape[at] = way.taps * way.stride
                weights = self.emit(relax.op.strided_slice(weights, [at], [0], [shape[at]]))
        width = [0, 0, 0, 0]
        for way, extent in zip(self.ways, shape[2:], strict=True):
            width += [0, way.taps * way.stride - extent]
        filled = self.emit(relax.op.nn.pad(weights, width)) if any(width) else weights
        split = [each for way in self.ways for each in (way.taps, way.stride)]
        apart = self.emit(relax.op.reshape(filled, (*shape[:2], *split)))
        for at, way in enumerate(self.ways):
            if way.taps > 1:
                apart = self.emit(relax.op.flip(apart, 2 + 2 * at))
        return apart

    def _spread(self, weights: relax.Expr, axis: int, dilation: int) -> relax.Expr:
        """Return the weights with ``dilation`` - 1 zeros after each weight along ``axis``."""
        shape = list(static_shape(weights) or ())
        wide = self.emit(relax.op.expand_dims(weights, axis + 1))
        width = [0] * (2 * len(shape) + 2)
        width[2 * axis + 3] = dilation - 1
        shape[axis] *= dilation
        return self.emit(relax.op.reshape(self.emit(relax.op.nn.pad(wide, width)), shape))

    def _kernels(self, apart: relax.Expr) -> relax.Expr:
        """Return the weights of all phases as (groups x phases x outputs of a group) x inputs of a group x taps."""
        inputs, own, *split = static_shape(apart)  # type: ignore[misc]
        grouped = self.emit(relax.op.reshape(apart, (self.groups, inputs // self.groups, own, *split)))
        taps, phases = range(3, 3 + len(split), 2), range(4, 4 + len(split), 2)
        ordered = self.emit(relax.op.permute_dims(grouped, [0, *phases, 2, 1, *taps]))
        outputs = self.groups * own * math.prod(split[1::2])
        return self.emit(relax.op.reshape(ordered, (outputs, inputs // self.groups, *split[::2])))

    def _kernel(self, apart: relax.Expr, phase: Sequence[int]) -> relax.Expr:
        """Return the weights of one phase of a depthwise convolution as channels x 1 x taps."""
        inputs, _, *split = static_shape(apart)  # type: ignore[misc]
        axes = [3 + 2 * at for at in range(len(phase))]
        chosen = self.emit(relax.op.strided_slice(apart, axes, list(phase), [each + 1 for each in phase]))
        return self.emit(relax.op.reshape(chosen, (inputs, 1, *split[::2])))

    def _convolve(self, data: relax.Expr, kernels: relax.Expr) -> relax.Expr:
        shape = static_shape(data) or ()
        begin = [max(0, -way.before) for way in self.ways]
        end = [extent - max(0, -way.after) for way, extent in zip(self.ways, shape[2:], strict=True)]
        if any(begin) or end != list(shape[2:]):
            data = self.emit(relax.op.strided_slice(data, list(range(2, len(shape))), begin, end))
        padding = [max(0, way.before) for way in self.ways] + [max(0, way.after) for way in self.ways]
        dilation = [way.dilation for way in self.ways]
        return self.emit(self.convolve(data, kernels, padding=padding, dilation=dilation, groups=self.groups))

    def _put_in_order(self, total: relax.Expr, channels: Sequence[int], output: Sequence[int]) -> relax.Expr:
        """Interleave the phases of ``total``, and crop the result to the shape ``output``.

        ``channels`` are the extents of the channels' parts: groups, the phases of each direction, channels of a group.
        """
        rank = len(self.ways)
        batch, _, *extents = static_shape(total)  # type: ignore[misc]
        whole = total
        if math.prod(channels[1:-1]) > 1:
            apart = self.emit(relax.op.reshape(total, (batch, *channels, *extents)))
            mixed = [axis for at in range(rank) for axis in (3 + rank + at, 2 + at)]
            order = self.emit(relax.op.permute_dims(apart, [0, 1, 2 + rank, *mixed]))
            sizes = [extent * way.stride for way, extent in zip(self.ways, extents, strict=True)]
            whole = self.emit(relax.op.reshape(order, (batch, output[1], *sizes)))
        if list(static_shape(whole) or ()) == list(output):
            return whole
        begin = [way.cropped for way in self.ways]
        end = [start + extent for start, extent in zip(begin, output[2:], strict=True)]
        return self.emit(relax.op.strided_slice(whole, list(range(2, 2 + rank)), begin, end))


_CONVOLUTIONS: dict[str, Callable[..., relax.Expr]] = {
    "relax.nn.conv1d_transpose": relax.op.nn.conv1d,
    "relax.nn.conv2d_transpose": relax.op.nn.conv2d,
    "relax.nn.conv3d_transpose": relax.op.nn.conv3d,
}
