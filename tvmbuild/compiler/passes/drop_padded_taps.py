"""Dilated convolutions without the taps that read only padding.

With a dilation as large as the data, most of a window is in the padding: of 3 x 3 taps at a distance of 24 on data of
16 x 16, only the middle tap reads data. Outputs for which the same taps read data are computed together, by a
convolution without padding whose kernel has only these taps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.obstacles import list_layouts, list_mixed_types
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.passes.split_conv_transpose_by_phase import Emit
from tvmbuild.compiler.remarks import is_missed, missed

_CONVOLUTIONS = {
    "relax.nn.conv1d": (relax.op.nn.conv1d, "NCW", "OIW"),
    "relax.nn.conv2d": (relax.op.nn.conv2d, "NCHW", "OIHW"),
    "relax.nn.conv3d": (relax.op.nn.conv3d, "NCDHW", "OIDHW"),
}
"""A convolution's operator → its constructor, and the layouts of data and weights that are rewritten."""
Shape = tuple[int, ...]
LARGEST_SHARE = 0.75
"""An axis is cut into parts only if at most this share of the taps of all its outputs remains."""
LEAST_SAVED = 1 << 20
"""The smallest number of products that each additional part must save: its call and the copies of its data take as
long."""


@dataclass(frozen=True)
class _Part:
    """Neighbouring outputs along one axis with the same taps inside the data. Each range is (begin, end)."""

    outputs: tuple[int, int]
    taps: tuple[int, int]
    data: tuple[int, int]
    padding: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class _Axis:
    """One spatial axis of a convolution; ``size`` and ``outputs`` are the lengths of the data and of the output."""

    size: int
    kernel: int
    stride: int
    dilation: int
    padding: tuple[int, int]
    outputs: int

    def list_parts(self) -> list[_Part]:
        """Return groups of neighbouring outputs with the same taps inside the data."""
        groups = itertools.groupby(range(self.outputs), key=self._find_taps)
        return [self._make_part(taps, list(places)) for taps, places in groups]

    def whole(self) -> _Part:
        """Return the axis as one part, with all taps and the padding."""
        return _Part((0, self.outputs), (0, self.kernel), (0, self.size), self.padding)

    def _find_taps(self, output: int) -> tuple[int, int]:
        places = [output * self.stride + tap * self.dilation - self.padding[0] for tap in range(self.kernel)]
        live = [tap for tap, place in enumerate(places) if 0 <= place < self.size]
        return (live[0], live[-1] + 1) if live else (0, 0)

    def _make_part(self, taps: tuple[int, int], places: list[int]) -> _Part:
        first = places[0] * self.stride + taps[0] * self.dilation - self.padding[0]
        last = places[-1] * self.stride + (taps[1] - 1) * self.dilation - self.padding[0]
        return _Part((places[0], places[-1] + 1), taps, (first, last + 1))


def drop_padded_taps(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Drop the taps of each dilated floating-point convolution that read only padding.

    On CPUs the outputs of a dilated axis are cut into parts with different taps if that saves enough products. On a GPU
    each part would be a small kernel. Without dilation each part would read nearly all weights again.
    """

    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        if not isinstance(call.op, tvm.ir.Op) or call.op.name not in _CONVOLUTIONS:
            return None
        data, weights, output = (static_shape(each) for each in (*call.args, call))
        if data is None or weights is None or output is None:
            return missed("its shape is not known")
        axes = _list_axes(call, (data, weights, output))
        if not any(axis.dilation > 1 and any(axis.padding) for axis in axes) or is_missed(_list_obstacles(call, axes)):
            return None
        products = math.prod(output[:2]) * weights[1]
        parts = _choose_parts(axes, products, may_cut=not is_gpu(target))
        if parts == [[axis.whole()] for axis in axes]:
            return missed("few of its taps read only padding")
        return _write(builder.emit, call, parts)

    return rewrite_calls(mod, rule)


def _list_axes(call: relax.Call, shapes: tuple[Shape, Shape, Shape]) -> list[_Axis]:
    """Return the spatial axes. ``shapes`` are those of data, weights and output."""
    attributes = call.attrs
    padding = [int(each) for each in attributes.padding]
    sides = zip(padding[: len(padding) // 2], padding[len(padding) // 2 :], strict=True)
    steps = zip(map(int, attributes.strides), map(int, attributes.dilation), sides, strict=True)
    sizes = zip(*(shape[2:] for shape in shapes), strict=True)
    return [
        _Axis(size, kernel, stride, dilation, around, outputs)
        for (size, kernel, outputs), (stride, dilation, around) in zip(sizes, steps, strict=True)
    ]


def _list_obstacles(call: relax.Call, axes: Sequence[_Axis]) -> Iterator[str]:
    _, data, weights = _CONVOLUTIONS[call.op.name]
    yield from list_layouts(call, data, weights)
    yield from list_mixed_types(call)
    if any(part.taps == (0, 0) for axis in axes for part in axis.list_parts()):
        yield "some of its outputs read only padding"


def _choose_parts(axes: Sequence[_Axis], products: int, *, may_cut: bool) -> list[list[_Part]]:
    """Return the parts of each axis, or one part for each axis if cutting axes saves too little.

    ``products`` is the number of products of one tap, for one place of the output.
    """
    chosen = [_choose(axis, may_cut=may_cut and axis.dilation > 1) for axis in axes]
    before = math.prod(axis.outputs * axis.kernel for axis in axes)
    after = math.prod(_count_taps(parts) for parts in chosen)
    pieces = math.prod(len(parts) for parts in chosen)
    is_worth = (before - after) * products >= LEAST_SAVED * (pieces - 1)
    return chosen if is_worth else [_choose(axis, may_cut=False) for axis in axes]


def _choose(axis: _Axis, *, may_cut: bool) -> list[_Part]:
    parts = axis.list_parts()
    if len(parts) == 1:
        return parts if parts[0].taps != (0, axis.kernel) else [axis.whole()]
    is_worth = _count_taps(parts) <= LARGEST_SHARE * axis.outputs * axis.kernel
    return parts if may_cut and is_worth else [axis.whole()]


def _count_taps(parts: Sequence[_Part]) -> int:
    return sum((part.outputs[1] - part.outputs[0]) * (part.taps[1] - part.taps[0]) for part in parts)


def _write(emit: Emit, call: relax.Call, parts: Sequence[Sequence[_Part]]) -> relax.Expr:
    """Return the convolution of all combinations of the axes' parts, put together axis by axis."""

    def join(chosen: tuple[_Part, ...]) -> relax.Expr:
        at = len(chosen)
        if at == len(parts):
            return _convolve(emit, call, chosen)
        pieces = [join((*chosen, part)) for part in parts[at]]
        return pieces[0] if len(pieces) == 1 else relax.op.concat([emit(each) for each in pieces], axis=2 + at)

    return join(())


def _convolve(emit: Emit, call: relax.Call, parts: Sequence[_Part]) -> relax.Expr:
    function, data_layout, kernel_layout = _CONVOLUTIONS[call.op.name]
    dilation = [int(each) for each in call.attrs.dilation]
    return function(
        _slice(emit, call.args[0], [part.data for part in parts]),
        _slice(emit, call.args[1], [part.taps for part in parts]),
        strides=[int(each) for each in call.attrs.strides],
        padding=[part.padding[side] for side in (0, 1) for part in parts],
        dilation=[1 if part.taps[1] - part.taps[0] == 1 else each for part, each in zip(parts, dilation, strict=True)],
        groups=int(call.attrs.groups),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_dtype=call.attrs.out_dtype,
    )


def _slice(emit: Emit, tensor: relax.Expr, ranges: Sequence[tuple[int, int]]) -> relax.Expr:
    """Return the tensor within the ranges of its spatial axes; the tensor itself if they hold all of it."""
    sizes = (static_shape(tensor) or ())[2:]
    cut = [(2 + at, *each) for at, (each, size) in enumerate(zip(ranges, sizes, strict=True)) if each != (0, size)]
    if not cut:
        return tensor
    axes, begins, ends = zip(*cut, strict=True)
    return emit(relax.op.strided_slice(tensor, axes, begins, ends))
