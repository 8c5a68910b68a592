"""Converters of convolutions and batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.errors import TvmbuildError


def convert_transposed(call: NodeCall) -> relax.Expr:
    """Convert ConvTranspose; TVM ignores ``output_shape``, so replace it by the padding that gives this shape."""
    wanted = call.attributes.get("output_shape")
    if wanted is not None:
        call.attributes["pads"], call.attributes["output_padding"] = _pads(call, wanted)
        call.attributes["auto_pad"] = b"NOTSET"
    return call.by_tvm()


def _pads(call: NodeCall, wanted: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the padding (begins, then ends) and the output padding, by the formula of ONNX's specification."""
    rank = len(call.shape) - 2
    kernel = call.inputs[1].ty.shape.values[2:]
    strides, dilations = (call.attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    more = list(call.attributes.get("output_padding", [0] * rank))
    begins, ends = [], []
    for axis in range(rank):
        spread = (int(kernel[axis]) - 1) * dilations[axis] + 1
        total = strides[axis] * (call.shape[2 + axis] - 1) + more[axis] + spread - wanted[axis]
        if total < 0:
            more[axis], total = more[axis] - total, 0
        half, rest = total // 2, total - total // 2
        begins.append(rest if call.text("auto_pad", "NOTSET") != "SAME_UPPER" else half)
        ends.append(half if call.text("auto_pad", "NOTSET") != "SAME_UPPER" else rest)
    return begins + ends, more


def convert_batch_normalization(call: NodeCall) -> relax.Expr:
    """Convert BatchNormalization; raise TvmbuildError for training mode.

    In a batch of one, the statistics of training mode would give another network.
    """
    if call.attributes.get("training_mode", 0) or call.outputs > 1:
        raise TvmbuildError("it computes statistics of its batch, as in training", "export the model for inference")
    return call.by_tvm()
