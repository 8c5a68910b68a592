"""Three-dimensional convolutions as two-dimensional ones: the slices under a window become channels.

Two-dimensional convolutions run in NHWC, in register tiles, with packed weights. In NCDHW a schedule has vectors along
a row of pixels, and with a stride it has no vectors at all. Each slice is copied as often as the kernel is deep, which
takes little time compared with the sums.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.obstacles import list_layouts
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.passes.split_conv_transpose_by_phase import Emit
from tvmbuild.compiler.remarks import is_missed, missed

Shape = tuple[int, ...]


def flatten_conv3d(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Rewrite each floating-point NCDHW convolution of known shapes as a two-dimensional one.

    Depthwise convolutions stay as they are: each of their outputs is a sum of few products.
    """
    return rewrite_calls(mod, _replace)


def _replace(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.nn.conv3d":
        return None
    shape, weights, output = (static_shape(each) for each in (*call.args, call))
    if shape is None or weights is None or output is None:
        return missed("its shape is not known")
    if is_missed(_list_obstacles(call, weights)):
        return None
    attributes, emit, op = call.attrs, builder.emit, relax.op
    front, top, left, back, bottom, right = (int(each) for each in attributes.padding)
    groups, (outputs, own, deep, *kernel) = int(attributes.groups), weights
    batch, _, slices, *size = shape
    grouped = emit(op.reshape(call.args[0], (batch, groups, own, slices, *size)))
    if front or back:
        grouped = emit(op.nn.pad(grouped, [0] * 6 + [front, back] + [0] * 4))
    stride, dilation = int(attributes.strides[0]), int(attributes.dilation[0])
    reached = [_slice_depth(emit, grouped, at * dilation, stride, output[2]) for at in range(deep)]
    joined = emit(op.concat(reached, axis=2)) if deep > 1 else reached[0]
    pictures = emit(op.permute_dims(joined, [0, 3, 1, 2, 4, 5]))
    pictures = emit(op.reshape(pictures, (batch * output[2], groups * deep * own, *size)))
    kernels = emit(op.permute_dims(call.args[1], [0, 2, 1, 3, 4])) if deep > 1 else call.args[1]
    total = op.nn.conv2d(
        pictures,
        emit(op.reshape(kernels, (outputs, deep * own, *kernel))),
        strides=[int(each) for each in attributes.strides[1:]],
        padding=[top, left, bottom, right],
        dilation=[int(each) for each in attributes.dilation[1:]],
        groups=groups,
        out_dtype=attributes.out_dtype,
    )
    apart = emit(op.reshape(emit(total), (batch, output[2], outputs, *output[3:])))
    return op.permute_dims(apart, [0, 2, 1, 3, 4])


def _slice_depth(emit: Emit, grouped: relax.Expr, first: int, stride: int, count: int) -> relax.Expr:
    """Return ``count`` slices along the depth axis, from slice ``first`` on, at distances of ``stride``."""
    end = first + (count - 1) * stride + 1
    return emit(relax.op.strided_slice(grouped, [3], [first], [end], [stride]))


def _list_obstacles(call: relax.Call, weights: Shape) -> Iterator[str]:
    types = sorted({str(each.ty.dtype) for each in (*call.args, call)})
    yield from list_layouts(call, "NCDHW", "OIDHW")
    if weights[1] == 1 and int(call.attrs.groups) > 1:
        yield "it is depthwise: each output is of few products"
    if not all("float" in each for each in types):
        yield f"it is of {' and '.join(types)}, not of floats"
