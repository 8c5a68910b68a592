"""Transposed convolutions whose windows do not overlap, as a 1 x 1 convolution whose output is put in order.

If the stride is as large as the kernel, each input pixel makes a separate patch, by one matrix product. TVM's own code
also adds up the zeros between the pixels, and only in NCHW: it is far slower, above all for few channels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.obstacles import list_computed_weights, list_layouts, list_mixed_types
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.passes.convert_each_layout import TO_NCHW, TO_NHWC
from tvmbuild.compiler.remarks import is_missed


def patch_conv_transpose_to_conv(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace transposed convolutions with constant weights whose windows do not overlap by 1 x 1 convolutions in NHWC.

    The new convolution has a transpose on either side, which `sink_transposes` cancels with those of ConvertLayout.
    """
    return rewrite_calls(mod, _replace)


def _replace(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    if not is_call(call, "relax.nn.conv2d_transpose") or is_missed(_list_obstacles(call)):
        return None
    weights = call.args[1].value.numpy()
    batch, _, height, width = (int(extent) for extent in call.args[0].ty.shape.values)
    inputs, outputs, rows, columns = weights.shape
    products = weights.transpose(0, 2, 3, 1).reshape(1, 1, inputs, rows * columns * outputs)
    emit, op = builder.emit, relax.op
    data = emit(op.permute_dims(call.args[0], TO_NHWC))
    kernel = constant(np.ascontiguousarray(products))
    patches = op.nn.conv2d(data, kernel, data_layout="NHWC", kernel_layout="HWIO", out_dtype=call.attrs.out_dtype)
    patches = op.reshape(emit(patches), (batch, height, width, rows, columns, outputs))
    pixels = op.reshape(
        emit(op.permute_dims(emit(patches), [0, 1, 3, 2, 4, 5])), (batch, height * rows, width * columns, outputs)
    )
    return op.permute_dims(emit(pixels), TO_NCHW)


def _list_obstacles(call: relax.Call) -> Iterator[str]:
    attributes, (data, weights) = call.attrs, call.args
    yield from list_computed_weights(call)
    yield from list_mixed_types(call)
    if static_shape(data) is None:
        yield "its shape is not known"
    yield from list_layouts(call, "NCHW", "IOHW", out="NCHW")
    kernel, strides = ([int(each) for each in some] for some in (weights.ty.shape.values[2:], attributes.strides))
    if kernel != strides:
        yield f"its kernel is {' x '.join(map(str, kernel))} with strides of {' x '.join(map(str, strides))}"
    if any(int(extent) for extent in (*attributes.padding, *attributes.output_padding)):
        yield "it has padding"
    if {int(each) for each in (*attributes.dilation, attributes.groups)} != {1}:
        yield "it has groups or a dilation"
