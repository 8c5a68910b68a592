"""One point for each heatmap."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from tvmbuild.base.postprocess_specs import Heatmaps
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.heatmaps import COLUMNS, PointMaps, write_planes, write_points
from tvmbuild.compiler.kernels.results.maxima import RowMaxima, write_row_maxima
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import (
    check_proportions,
    find_input_size,
    find_output,
    is_channels_last,
    refuse_output,
)


@dataclass(frozen=True)
class PointResult:
    """The points in one output."""

    places: tuple[int, ...]
    maps: PointMaps
    is_last: bool = False
    """True if the output has its points in the last dimension."""

    @property
    def classes(self) -> int | None:
        """The number of classes that labels name, as in `ResultForm`: heatmaps have unnamed points for other uses."""
        return None

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the points [1 + points, 3]."""
        maps, planes = self.maps, request.outputs
        if self.is_last:
            planes = calls.add("planes", write_planes(maps, on_gpu=calls.on_gpu), planes, [maps.output])
        maxima = RowMaxima(maps.points, maps.height * maps.width, maps.output)
        function = write_row_maxima(maxima, on_gpu=calls.on_gpu)
        peaks = calls.add("peaks", function, planes, maxima.list_outputs())
        function = write_points(maps, on_gpu=calls.on_gpu)
        arguments = [*planes, *peaks, request.geometry]
        return calls.add("points", function, arguments, [((1 + maps.points, COLUMNS), "float32")])


def describe_heatmaps(interface: Interface, options: EntryOptions, asked: Heatmaps) -> PointResult:
    """Return the form of the points. Raises TvmbuildError if the output has no heatmaps."""
    place, info = find_output(interface, asked.outputs, "the result `heatmaps`")
    shape, is_last = info.shape, is_channels_last(interface, options.preprocess)
    if len(shape) != 4 or shape[0] != 1 or "float" not in info.dtype:
        raise refuse_output("`heatmaps` needs an output [1, points, height, width]", info)
    size = find_input_size(interface, options.preprocess)
    points, height, width = (shape[3], *shape[1:3]) if is_last else shape[1:]
    check_proportions("`heatmaps`", info, (height, width), size)
    maps = PointMaps(points, height, width, ((1, points, height, width), info.dtype), size)
    return PointResult((place,), maps, is_last)
