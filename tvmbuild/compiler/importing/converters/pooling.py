"""The converter of pooling: automatic padding, because TVM pads differently if the strides do not divide the image."""

from __future__ import annotations

from tvm import relax

from tvmbuild.compiler.importing.automatic_pads import find_same_pads
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.errors import TvmbuildError


def convert_pool(call: NodeCall) -> relax.Expr:
    """Convert a pooling operator, with ``auto_pad`` replaced by explicit padding."""
    kernel, sizes = call.attributes["kernel_shape"], call.shape[2:]
    if len(kernel) != len(sizes):
        raise TvmbuildError(
            f"its window has {len(kernel)} axes, and its input {list(call.shape)} has {len(sizes)} after batch and "
            "channels",
            "PyTorch's older exporter writes a pool of a picture without a batch so: give it four axes (x[:, None]), "
            "or export with dynamo=True",
        )
    strides, dilations = (call.attributes.get(name, [1] * len(sizes)) for name in ("strides", "dilations"))
    pads = find_same_pads(call.text("auto_pad", "NOTSET"), sizes, kernel, strides, dilations)
    if pads is not None:
        call.attributes.update(auto_pad=b"NOTSET", pads=pads)
    return call.by_tvm()
