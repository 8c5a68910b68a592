"""The converter of RoiAlign: a vector of channels shares the places and the weights of its samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tvm import relax, te, tirx

from tvmbuild.compiler.importing.converters.call import NodeCall


@dataclass(frozen=True)
class _Regions:
    """The attributes of a RoiAlign."""

    size: tuple[int, int]
    """Height and width of a pooled region."""
    scale: float
    ratio: int
    """The number of samples along each side of a bin. With 0, it depends on the region."""
    aligned: bool
    """True if a region may be smaller than a pixel of the data."""


def convert_roi_align(call: NodeCall) -> relax.Expr:
    """Convert RoiAlign; the regions of `half_pixel` are moved by half a pixel of the data.

    TVM's converter moves them by half a pixel of the picture. In the mode `max`, TVM takes the maximum of interpolated
    values, ONNX that of each neighbour times its weight.
    """
    scale, rois = call.float("spatial_scale", 1.0), call.inputs[1]
    aligned = call.text("coordinate_transformation_mode", "half_pixel" if call.opset >= 16 else "") == "half_pixel"
    if aligned:
        rois = call.emit(relax.op.subtract, rois, call.number(0.5 / scale))
    size = (call.attributes.get("output_height", 1), call.attributes.get("output_width", 1))
    regions = _Regions(size, scale, call.attributes.get("sampling_ratio", 0), aligned)
    sample = call.emit(relax.op.astype, call.emit(relax.op.expand_dims, call.inputs[2], 1), call.dtype)
    data = call.emit(relax.op.permute_dims, call.data, [0, 2, 3, 1])
    placed = call.emit(relax.op.concat, [sample, rois], axis=1)
    if call.text("mode", "avg").lower() == "max":
        pool = partial(_pool_maxima, regions=regions)
        pooled = call.builder.emit_te(pool, data, placed, primfunc_name_hint="roi_align")
    else:
        pooled = call.emit(
            relax.op.vision.roi_align,
            data,
            placed,
            pooled_size=size,
            spatial_scale=scale,
            sample_ratio=regions.ratio,
            aligned=aligned,
            layout="NHWC",
        )
    return relax.op.permute_dims(pooled, [0, 3, 1, 2])


def _pool_maxima(data: te.Tensor, rois: te.Tensor, regions: _Regions) -> te.Tensor:
    """Return the maxima [regions, rows, columns, channels] of data [batch, height, width, channels]."""
    _, *sides, channels = (int(each) for each in data.shape)
    kind = data.dtype
    one, half, zero = (tirx.const(each, kind) for each in (1.0, 0.5, 0.0))

    def along(axis: int, region: tirx.Var, place: tirx.Var) -> _Samples:
        begin, end = (rois[region, at] * tirx.const(regions.scale, kind) for at in (2 - axis, 4 - axis))
        length = end - begin if regions.aligned else te.max(end - begin, one)
        bins = length / tirx.const(regions.size[axis], kind)
        found = tirx.const(regions.ratio, "int32") if regions.ratio > 0 else te.ceil(bins).astype("int32")
        loop = te.reduce_axis((0, te.max(found, 0)), name=f"sample{axis}")
        where = begin + place.astype(kind) * bins + (loop.var.astype(kind) + half) * bins / found.astype(kind)
        kept = te.min(te.max(where, zero), tirx.const(sides[axis] - 1, kind))
        first = kept.astype("int32")
        inside = te.all(where >= -1.0, where <= sides[axis])
        weight = kept - first.astype(kind)
        return _Samples(loop, found, inside, (first, te.min(first + 1, sides[axis] - 1)), (one - weight, weight))

    def element(region: tirx.Var, row: tirx.Var, column: tirx.Var, channel: tirx.Var) -> tirx.PrimExpr:
        down, right = along(0, region, row), along(1, region, column)
        batch = rois[region, 0].astype("int32")
        products = [
            down.weights[y] * right.weights[x] * data[batch, down.pixels[y], right.pixels[x], channel]
            for y in range(2)
            for x in range(2)
        ]
        largest = te.max(te.max(products[0], products[1]), te.max(products[2], products[3]))
        value = te.if_then_else(te.all(down.inside, right.inside), largest, zero)
        return te.max(value, axis=[down.loop, right.loop])

    def of_samples(region: tirx.Var, row: tirx.Var, column: tirx.Var, channel: tirx.Var) -> tirx.PrimExpr:
        """Return the maximum of a region's samples, or 0 for a region without a sample."""
        exists = te.all(along(0, region, row).count > 0, along(1, region, column).count > 0)
        return te.if_then_else(exists, maxima[region, row, column, channel], zero)

    shape = (rois.shape[0], *regions.size, channels)
    maxima = te.compute(shape, element, name="roi_maxima")
    return maxima if regions.ratio > 0 else te.compute(shape, of_samples, name="roi_align")


@dataclass(frozen=True)
class _Samples:
    """The samples of a bin along one axis."""

    loop: tirx.IterVar
    count: tirx.PrimExpr
    inside: tirx.PrimExpr
    """True if a sample is at most a pixel outside; else it is 0."""
    pixels: tuple[tirx.PrimExpr, tirx.PrimExpr]
    """The two neighbours of a sample."""
    weights: tuple[tirx.PrimExpr, tirx.PrimExpr]
