"""The converter of pooling: automatic padding, because TVM pads differently if the strides do not divide the image."""

from __future__ import annotations

from tvm import relax

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.errors import TvmbuildError


def convert_pool(call: NodeCall) -> relax.Expr:
    """Convert a pooling operator, with ``auto_pad`` replaced by explicit padding.

    There is one output for each stride that begins in the image, and enough padding for the last window.
    """
    kernel, sizes = call.attributes["kernel_shape"], call.shape[2:]
    if len(kernel) != len(sizes):
        raise TvmbuildError(
            f"its window has {len(kernel)} axes, and its input {list(call.shape)} has {len(sizes)} behind batch and "
            "channels",
            "PyTorch's older exporter writes a pool of a picture without a batch so: give it four axes (x[:, None]), "
            "or export with dynamo=True",
        )
    rule = call.text("auto_pad", "NOTSET")
    if rule in {"SAME_UPPER", "SAME_LOWER"}:
        strides, dilations = (call.attributes.get(name, [1] * len(sizes)) for name in ("strides", "dilations"))
        needed = [
            max(0, (-(-size // stride) - 1) * stride + (width - 1) * apart + 1 - size)
            for size, width, stride, apart in zip(sizes, kernel, strides, dilations, strict=True)
        ]
        before = [pads // 2 if rule == "SAME_UPPER" else -(-pads // 2) for pads in needed]
        after = [pads - first for pads, first in zip(needed, before, strict=True)]
        call.attributes.update(auto_pad=b"NOTSET", pads=[*before, *after])
    return call.by_tvm()
