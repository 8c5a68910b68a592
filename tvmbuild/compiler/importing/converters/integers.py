"""ConvInteger and MatMulInteger: sums of integers, exact in 32 bits."""

from __future__ import annotations

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from tvmbuild.compiler.expressions import static_shape
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.converters.quantization import scalar


def convert_conv_integer(call: NodeCall) -> relax.Expr:
    """Convolve numbers less their zero points, which TVM lacks: what is padded is then zero."""
    kernels = [-1] + [1] * (len(call.shape) - 1)
    operands = [_subtract(call, 0, []), _subtract(call, 1, kernels)]
    # Without an automatic kernel's shape, and with its ways of padding, as of the convolution of floats.
    return onnx_frontend.Conv._impl_v11(call.builder, [*operands, None], call.attributes, {})  # noqa: SLF001


def convert_matmul_integer(call: NodeCall) -> relax.Expr:
    """Multiply matrices of numbers less their zero points; TVM's makes a matrix of a vector with a zero point."""
    return relax.op.matmul(_subtract(call, 0, [-1, 1]), _subtract(call, 1, [1, -1]), out_dtype="int32")


def _subtract(call: NodeCall, index: int, form: list[int]) -> relax.Expr:
    """Return an operand less its zero point as int32; zero points that are a vector take ``form``."""
    wide = call.emit(relax.op.astype, call.inputs[index], "int32")
    given = call.inputs[index + 2]
    if given is None:
        return wide
    zero = call.emit(relax.op.astype, scalar(call, given), "int32")
    if len(static_shape(zero) or ()) == 1 and form:
        zero = call.emit(relax.op.reshape, zero, form)
    return call.emit(relax.op.subtract, wide, zero)
