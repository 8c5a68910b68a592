"""One point for each heatmap."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from tvmbuild.base.postprocess_specs import Heatmaps
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.heatmaps import COLUMNS, PointMaps, write_points
from tvmbuild.compiler.kernels.results.maxima import RowMaxima, write_row_maxima
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import find_input_size, find_output, refuse_output


@dataclass(frozen=True)
class PointResult:
    """The points in one output."""

    places: tuple[int, ...]
    maps: PointMaps

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the points [1 + points, 3]."""
        maps = self.maps
        maxima = RowMaxima(maps.points, maps.height * maps.width, maps.output)
        function = write_row_maxima(maxima, on_gpu=calls.on_gpu)
        peaks = calls.add("peaks", function, request.outputs, maxima.list_outputs())
        function = write_points(maps, on_gpu=calls.on_gpu)
        arguments = [*request.outputs, *peaks, request.geometry]
        return calls.add("points", function, arguments, [((1 + maps.points, COLUMNS), "float32")])


def describe_heatmaps(interface: Interface, options: EntryOptions, asked: Heatmaps) -> PointResult:
    """Return the form of the points. Raises TvmbuildError if the output has no heatmaps."""
    place, info = find_output(interface, asked.outputs, "the result `heatmaps`")
    shape = info.shape
    if len(shape) != 4 or shape[0] != 1 or "float" not in info.dtype:
        raise refuse_output("`heatmaps` needs an output [1, points, height, width]", info)
    size = find_input_size(interface, options.preprocess)
    return PointResult((place,), PointMaps(*shape[1:], (shape, info.dtype), size))
