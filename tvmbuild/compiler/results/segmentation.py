"""A map with a class for each pixel."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from tvmbuild.base.postprocess_specs import Segmentation, is_in_input
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.canvas import Canvas, make_input_canvas
from tvmbuild.compiler.kernels.results.segmentation import ClassMap, DrawnMap, write_labels, write_map
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import (
    check_proportions,
    find_input_size,
    find_output,
    is_channels_last,
    refuse_output,
)
from tvmbuild.package.result_arrays import OUTSIDE


@dataclass(frozen=True)
class MapResult:
    """The map that is drawn from one output."""

    places: tuple[int, ...]
    source: ClassMap
    nearest: bool
    canvas: Canvas | None = None
    """The pixels of the map, if they are always those of the network's input."""

    @property
    def classes(self) -> int | None:
        """The number of classes that labels name, as in `ResultForm`."""
        return None if self.source.ready else max(self.source.classes, 2)

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the map [height, width], uint8."""
        source, canvas = self.source, self.canvas or request.canvas
        form = DrawnMap(source, canvas, self.nearest)
        arguments = list(request.outputs)
        if not form.by_threshold:
            function = write_labels(source, on_gpu=calls.on_gpu)
            arguments += calls.add("labels", function, request.outputs, [((source.pixels,), "int32")])
        function = write_map(form, on_gpu=calls.on_gpu)
        return calls.add(
            "map", function, [*arguments, *form.list_taps(), request.thresholds], [(canvas.shape, "uint8")]
        )


def describe_segmentation(interface: Interface, options: EntryOptions, asked: Segmentation) -> MapResult:
    """Return the form of the map. Raises TvmbuildError if the output has neither scores nor classes of pixels."""
    place, info = find_output(interface, asked.outputs, "the result `segmentation`")
    size = find_input_size(interface, options.preprocess)
    shape, is_last = info.shape, is_channels_last(interface, options.preprocess)
    if len(shape) == 3 and shape[0] == 1:
        shape = (1, *shape[1:], 1) if is_last else (1, 1, *shape[1:])
    if len(shape) != 4 or shape[0] != 1:
        raise refuse_output("`segmentation` needs an output [1, classes, height, width] or [1, height, width]", info)
    classes, height, width = (shape[3], *shape[1:3]) if is_last else shape[1:]
    ready = "float" not in info.dtype
    if classes > OUTSIDE or (ready and classes != 1):
        raise refuse_output(f"`segmentation` needs scores of at most {OUTSIDE} classes, or one class a pixel", info)
    check_proportions("`segmentation`", info, (height, width), size)
    form = (info.shape, info.dtype)
    source = ClassMap(classes, height, width, form, ready, is_last, asked.activation == "sigmoid")
    canvas = make_input_canvas(*size) if is_in_input(asked) else None
    return MapResult((place,), source, ready or asked.interpolation == "nearest", canvas)
