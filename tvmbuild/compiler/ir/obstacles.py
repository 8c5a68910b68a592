"""Reasons why a pass cannot rewrite a convolution or product, shared by several passes and reported by `is_missed`."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from tvmbuild.compiler.ir.expressions import static_shape


def list_computed_weights(call: relax.Call) -> Iterator[str]:
    """Yield an obstacle if the second operand is not a constant."""
    if not isinstance(call.args[1], tvm.ir.GenericConst):
        yield "its weights are computed, not constant"


def list_layouts(call: relax.Call, data: str, weights: str, out: str | None = None) -> Iterator[str]:
    """Yield an obstacle unless a convolution has the given layouts of data, weights and, if given, output."""
    attributes = call.attrs
    is_other = out is not None and attributes.out_layout != out
    if is_other or (attributes.data_layout, attributes.kernel_layout) != (data, weights):
        yield f"its layout is {attributes.data_layout} with weights in {attributes.kernel_layout}"


def list_mixed_types(call: relax.Call) -> Iterator[str]:
    """Yield an obstacle unless data and weights have the same floating-point type, and the result is floating-point."""
    types = sorted({str(each.ty.dtype) for each in call.args[:2]})
    if len(types) > 1 or not all("float" in each for each in (*types, str(call.ty.dtype))):
        yield f"it is of {' and '.join(types)}, not of one type of floats"


def list_nhwc_obstacles(call: relax.Call) -> Iterator[str]:
    """Yield the obstacles if a convolution is not in NHWC, has computed weights, or has data of unknown shape."""
    yield from list_layouts(call, "NHWC", "HWIO")
    yield from list_computed_weights(call)
    if static_shape(call.args[0]) is None:
        yield "its shape is not known"


def explain_full(count: int, what: str, lanes: int) -> str:
    """Return the reason why padding ``count`` channels or columns saves no vectors of ``lanes`` elements.

    ``what`` is the padded thing's name in the reason, for example "channels".
    """
    if count % lanes == 0:
        return f"{count} {what} already fill whole vectors of {lanes}"
    return f"{what} filled up from {count} would be in no fewer vectors of {lanes}"
