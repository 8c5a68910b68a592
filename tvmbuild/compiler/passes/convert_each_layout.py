"""The conversion of convolutions and pooling from NCHW to NHWC one by one, for graphs on which ConvertLayout fails."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax

from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.remarks import missed

TO_NHWC, TO_NCHW, _TO_HWIO = [0, 2, 3, 1], [0, 3, 1, 2], [2, 3, 1, 0]


def convert_each_layout(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Compute each NCHW convolution and pooling of ``main`` in NHWC, between two transposes."""
    return rewrite_calls(mod, _convert)


def _convert(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    rule = _RULES.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
    if rule is None:
        return None
    if _layout(call) != "NCHW" or call.attrs.out_layout not in {"", "NCHW"}:
        return missed("its layout is not NCHW")
    data = builder.emit(relax.op.permute_dims(call.args[0], TO_NHWC))
    return relax.op.permute_dims(builder.emit(rule(call, data)), TO_NCHW)


def _layout(call: relax.Call) -> str:
    kernel = getattr(call.attrs, "kernel_layout", "OIHW")
    return str(getattr(call.attrs, "data_layout", "") or call.attrs.layout) if kernel == "OIHW" else ""


def _convolve(call: relax.Call, data: relax.Expr) -> relax.Expr:
    attrs, weights = call.attrs, relax.op.permute_dims(call.args[1], _TO_HWIO)
    return relax.op.nn.conv2d(
        data,
        weights,
        strides=list(attrs.strides),
        padding=list(attrs.padding),
        dilation=list(attrs.dilation),
        groups=int(attrs.groups),
        data_layout="NHWC",
        kernel_layout="HWIO",
        out_dtype=attrs.out_dtype,
    )


def _pool(function: Callable[..., relax.Expr]) -> Callable[[relax.Call, relax.Expr], relax.Expr]:
    def pool(call: relax.Call, data: relax.Expr) -> relax.Expr:
        attrs = call.attrs
        return function(
            data,
            list(attrs.pool_size),
            list(attrs.strides),
            list(attrs.padding),
            list(attrs.dilation),
            ceil_mode=bool(attrs.ceil_mode),
            count_include_pad=bool(attrs.count_include_pad),
            layout="NHWC",
        )

    return pool


def _pool_adaptively(call: relax.Call, data: relax.Expr) -> relax.Expr:
    size = call.attrs.output_size
    return relax.op.nn.adaptive_avg_pool2d(data, None if size is None else list(size), layout="NHWC")


POOLS: dict[str, Callable[[relax.Call, relax.Expr], relax.Expr]] = {
    "relax.nn.max_pool2d": _pool(relax.op.nn.max_pool2d),
    "relax.nn.avg_pool2d": _pool(relax.op.nn.avg_pool2d),
    "relax.nn.adaptive_avg_pool2d": _pool_adaptively,
}
"""A pooling operator's name → a function of its NCHW call and of NHWC data, which computes the operator in NHWC."""
_RULES = {"relax.nn.conv2d": _convolve, **POOLS}
