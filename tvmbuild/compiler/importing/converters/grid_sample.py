"""The converter of GridSample: a vector of channels shares the places and the weights of its four neighbours."""

from __future__ import annotations

from functools import partial

from tvm import relax, te, tirx

from tvmbuild.compiler.importing.converters.call import NodeCall

_FEWEST_CHANNELS = 8
"""The fewest channels that are put innermost: with fewer, vectors run along the places, as in TVM's function."""


def convert_grid_sample(call: NodeCall) -> relax.Expr:
    """Convert GridSample; an axis of one pixel is doubled where TVM would divide by its length less one.

    Aligned corners reflect at the first and the last pixel, so that one pixel and its copy give the same samples.
    TVM's own function computes the places again for each channel: with 64 channels, 48 x 48 places took three times as
    long as in ONNX Runtime.
    """
    padding, aligned = call.text("padding_mode", "zeros"), bool(call.attributes.get("align_corners", 0))
    if padding == "reflection" and aligned:
        for axis, length in enumerate(call.shape[2:], 2):
            if length == 1:
                call.inputs[0] = call.emit(relax.op.concat, [call.data, call.data], axis=axis)
    is_linear = call.text("mode", "linear") in {"linear", "bilinear"}
    if not is_linear or padding == "reflection" or len(call.shape) != 4 or call.shape[1] < _FEWEST_CHANNELS:
        return call.by_tvm()
    sample = partial(_sample, is_border=padding == "border", aligned=aligned)
    pixels = call.emit(relax.op.permute_dims, call.data, [0, 2, 3, 1])
    sampled = call.builder.emit_te(sample, pixels, call.inputs[1], primfunc_name_hint="grid_sample")
    return relax.op.permute_dims(sampled, [0, 3, 1, 2])


def _sample(data: te.Tensor, grid: te.Tensor, *, is_border: bool, aligned: bool) -> te.Tensor:
    """Sample [batch, height, width, channels] at the places [batch, rows, columns, 2], to the right and down."""
    batch, *sizes, channels = (int(each) for each in data.shape)
    kind = grid.dtype

    def find(value: tirx.PrimExpr, length: int) -> tuple[tirx.PrimExpr, tirx.PrimExpr]:
        """Return the pixel before a place from -1 to 1, and the distance from it."""
        place = (value + 1) * (length - 1) / 2 if aligned else (value + 1) * length / 2 - tirx.const(0.5, kind)
        if is_border:
            place = te.min(te.max(place, tirx.const(0, kind)), tirx.const(length - 1, kind))
        before = te.floor(place)
        return before.astype("int32"), (place - before).astype(data.dtype)

    def element(n: tirx.Var, i: tirx.Var, j: tirx.Var, c: tirx.Var) -> tirx.PrimExpr:
        (y, below), (x, right) = find(grid[n, i, j, 1], sizes[0]), find(grid[n, i, j, 0], sizes[1])

        def read(row: tirx.PrimExpr, column: tirx.PrimExpr) -> tirx.PrimExpr:
            inside = te.all(row >= 0, row < sizes[0], column >= 0, column < sizes[1])
            return te.if_then_else(inside, data[n, row, column, c], tirx.const(0, data.dtype))

        upper = read(y, x) * (1 - right) + read(y, x + 1) * right
        lower = read(y + 1, x) * (1 - right) + read(y + 1, x + 1) * right
        return upper * (1 - below) + lower * below

    return te.compute((batch, *grid.shape[1:3], channels), element, name="grid_sample")
