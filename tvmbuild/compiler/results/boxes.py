"""The boxes of a detector, with masks or keypoints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tvm import relax

from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes, BoxForm, Keypoints, Masks, is_in_input, kind_of
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.buffers import Form
from tvmbuild.compiler.kernels.results.candidates import Candidates, write_candidates
from tvmbuild.compiler.kernels.results.canvas import Canvas, make_input_canvas
from tvmbuild.compiler.kernels.results.masks import Prototypes, write_instances, write_mask_values
from tvmbuild.compiler.kernels.results.priors import Priors
from tvmbuild.compiler.kernels.results.select import More, Selection, list_candidate_forms, write_selection
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.grids import GridResult, describe_grids
from tvmbuild.compiler.results.outputs import find_input_size, find_outputs, refuse_counted
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo

_THREE = 3
"""The number of outputs if one has the priors, or the classes."""
_COARSEST = 32
"""The distance in pixels of the cells of a detector's last but one grid, or of its last."""
_PROTOTYPES = 4
"""The distance in pixels of the prototypes of masks."""
_FEW = 16
"""A map with no more values is hardly one of prototypes: YOLOv5 to 26 have 32."""
_ROWS = 2
"""The number of dimensions of an output with a row for each box and without a batch."""


@dataclass(frozen=True)
class BoxResult:
    """Boxes, and what belongs to each box."""

    places: tuple[int, ...]
    candidates: Candidates
    selection: Selection
    prototypes: Prototypes | None = None
    canvas: Canvas | None = None
    """The pixels of the masks, if they are always those of the network's input."""

    @property
    def classes(self) -> int | None:
        """The number of classes that labels name, as in `ResultForm`."""
        return None if self.candidates.form.ready else self.candidates.classes

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the results [1 + most, columns], and with masks the map of objects [height, width], uint8."""
        form = self.candidates
        read, cells = list(request.outputs[: len(form.outputs)]), form.list_cells()
        arguments = [*read, *([] if cells is None else [cells]), request.thresholds]
        function = write_candidates(form, on_gpu=calls.on_gpu)
        found = calls.add("candidates", function, arguments, list_candidate_forms(form.count))
        more = [] if self.selection.more is None else read[:1]
        function = write_selection(self.selection, on_gpu=calls.on_gpu)
        arguments = [*found, request.thresholds, request.geometry, *more]
        results, *rest = calls.add("selection", function, arguments, self.selection.list_outputs())
        if self.prototypes is None:
            return [results]
        boxes, kept = rest[:2]
        values = self._multiply(calls, self.prototypes, [results, kept, request.outputs[-1]])
        return [results, self._draw(calls, self.prototypes, [results, boxes, values], self.canvas or request.canvas)]

    def _multiply(self, calls: KernelCalls, prototypes: Prototypes, arguments: list[relax.Expr]) -> relax.Expr:
        """Return the values of the masks [most, pixels] of results, from their coefficients and the prototypes."""
        form, most = self.selection.list_outputs()[0], self.selection.most
        function = write_mask_values(prototypes, form, most, on_gpu=calls.on_gpu)
        (values,) = calls.add("mask_values", function, arguments, [((most, prototypes.pixels), "float32")])
        return values

    def _draw(
        self, calls: KernelCalls, prototypes: Prototypes, arguments: list[relax.Expr], canvas: Canvas
    ) -> relax.Expr:
        """Return the map of results, from their boxes and the values of their masks."""
        form, given = self.selection.list_outputs()[0], [*arguments, *prototypes.list_taps(canvas)]
        function = write_instances(prototypes, form, canvas, on_gpu=calls.on_gpu)
        (drawn,) = calls.add("instances", function, given, [(canvas.shape, "uint8")])
        return drawn


def describe_boxes(interface: Interface, options: EntryOptions, asked: Boxes) -> BoxResult | GridResult:
    """Return the form of the boxes. Raises TvmbuildError if the outputs do not have the form that is asked for."""
    if asked.form in GRID_FORMS:
        return describe_grids(interface, options, asked)
    form, has_masks = BOX_FORMS[asked.form], isinstance(asked, Masks)
    count = 2 if form.split or has_masks else 1
    count += form.apart or (form.priors != "none" and not asked.anchors)
    places = find_outputs(interface, asked.outputs, count, f"a result `{kind_of(asked)}` of the form {asked.form}")
    infos = [interface.outputs[place] for place in places]
    prototypes = _describe_prototypes(interface, infos[1]) if has_masks else None
    more = prototypes.count if prototypes else asked.points * asked.values if isinstance(asked, Keypoints) else 0
    candidates = _describe_candidates(interface, options, asked, infos[:1] if has_masks else infos, more)
    _refuse_coefficients(interface, options, asked, candidates)
    kept = None
    if more:
        locate = partial(_locate, candidates)
        kept = More(candidates.outputs[0], more, locate, asked.values if isinstance(asked, Keypoints) else 0)
    selection = Selection(candidates.count, asked.most, form.suppress, asked.agnostic, kept)
    canvas = make_input_canvas(candidates.height, candidates.width) if is_in_input(asked) else None
    return BoxResult(places, candidates, selection, prototypes, canvas)


def _refuse_coefficients(interface: Interface, options: EntryOptions, asked: Boxes, candidates: Candidates) -> None:
    """Raise TvmbuildError if coefficients of masks would be classes: prototypes follow, and no output is named."""
    if type(asked) is not Boxes or asked.outputs or _count_fewest(interface, options, candidates.form) == 0:
        return
    size = find_input_size(interface, options.preprocess)
    for info in interface.outputs[1:2]:
        is_quarter = len(info.shape) == 4 and tuple(side * _PROTOTYPES for side in info.shape[2:]) == size
        if is_quarter and _FEW < info.shape[1] < candidates.classes:
            raise TvmbuildError(
                f"a result `boxes` of {interface.model} would have {candidates.classes} classes, {info.shape[1]} of "
                f"them the coefficients of the prototypes {info.name} {list(info.shape)}",
                "choose the result `masks`, or name the `output` in its `postprocess` in models.yaml",
            )


def _locate(candidates: Candidates, candidate: relax.Expr, value: int) -> relax.Expr:
    return candidates.find_place(candidate, candidates.own + value)


def _describe_prototypes(interface: Interface, info: TensorInfo) -> Prototypes:
    if len(info.shape) != 4 or info.shape[0] != 1:
        raise TvmbuildError(
            f"the prototypes of masks are [1, coefficients, height, width]; {interface.model} has {info.name} "
            f"{list(info.shape)}",
            "correct `output` and `prototypes` of its `postprocess` in models.yaml",
        )
    if info.counts:
        raise refuse_counted("a result `masks`", info)
    _, count, height, width = info.shape
    return Prototypes(count, height, width, (info.shape, info.dtype))


def _describe_candidates(
    interface: Interface, options: EntryOptions, asked: Boxes, infos: list[TensorInfo], more: int
) -> Candidates:
    form = BOX_FORMS[asked.form]
    needs_size = form.normalised or bool(form.strides or asked.strides) or isinstance(asked, Masks)
    height, width = find_input_size(interface, options.preprocess) if needs_size else (0, 0)
    count, values = _find_sizes(form, infos[0].shape)
    classes = 1 if form.ready else values - form.begin - (form.background == "last") - more
    outputs: list[Form] = [(each.shape, each.dtype) for each in infos]
    priors = Priors(asked.strides, asked.anchors) if asked.strides else None
    counted = _is_counted(asked, infos)
    found = (height, width, more, priors, asked.variances, counted)
    candidates = Candidates(form, count, classes, tuple(outputs), *found)
    cells = candidates.list_cells()
    fits = count > 0 and classes > 0
    fits = fits and (not form.ready or values == candidates.values)
    fits = fits and (priors is not None or cells is None or len(cells) == count)
    fits = fits and (not form.split or _has_boxes(form, infos[1].shape, count))
    third = ((1, count), (count,)) if form.apart else ((1, count, 4), (count, 4))
    fits = fits and (len(infos) < _THREE or infos[2].shape in third)
    fewest = _count_fewest(interface, options, form)
    if fits and count < min(fewest, classes) and not counted and not asked.outputs:
        raise TvmbuildError(
            f"a result `{kind_of(asked)}` of the form {asked.form} has a box for each {_COARSEST} by {_COARSEST} "
            f"pixels, {fewest} or more; {infos[0].name} {list(infos[0].shape)} of {interface.model} would have {count} "
            f"of {classes} classes",
            "choose another `form` in its `postprocess` in models.yaml, or name the `output` if that is right",
        )
    if fits and cells is not None and len(cells) != count:
        raise TvmbuildError(
            f"a result `{kind_of(asked)}` of the form {asked.form} has {len(cells)} boxes by its `strides` and "
            f"`anchors`; {interface.model} has {count}",
            "state the anchors of each grid in the order of the outputs",
        )
    if not fits:
        shapes = ", ".join(f"{each.name} {list(each.shape)}" for each in infos)
        raise TvmbuildError(
            f"a result `{kind_of(asked)}` of the form {asked.form} needs {_say_order(asked, more)}"
            f"{_say_more(asked, more)}; {interface.model} has {shapes}",
            f"{'correct `points` and `values`, or ' if isinstance(asked, Keypoints) else ''}"
            "choose another `form` or `output` in its `postprocess` in models.yaml",
        )
    return candidates


def _count_fewest(interface: Interface, options: EntryOptions, form: BoxForm) -> int:
    """Return the number of cells of a coarse grid, each with a box in a network with grids, or 0 for other networks.

    A network with fewer boxes may exist, but hardly one with fewer boxes than classes: that is a transposed output.
    """
    if form.ready or form.split or not form.suppress:
        return 0
    try:
        height, width = find_input_size(interface, options.preprocess)
    except TvmbuildError:  # boxes in pixels do not need the size
        return 0
    return (height // _COARSEST) * (width // _COARSEST)


def _is_counted(asked: Boxes, infos: list[TensorInfo]) -> bool:
    """Return whether the number of boxes depends on data. Raises TvmbuildError if the form cannot have such outputs.

    Zeros follow the boxes that exist: they do not count as boxes, as long as a score of 0 means none.
    """
    form = BOX_FORMS[asked.form]
    possible = form.activation == "none" and not form.strides and form.priors == "none"
    for place, info in enumerate(infos):
        behind = 1 if form.layout == "columns" or (form.apart and place != 1) else 2
        found = {count.axis for count in info.counts}
        if found and not (possible and found == {len(info.shape) - behind}):
            raise refuse_counted(f"a result `{kind_of(asked)}` of the form {asked.form}", info)
    return any(info.counts for info in infos)


def _find_sizes(form: BoxForm, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the numbers of boxes and of values of each in the first output, or zeros if it is not a list of boxes.

    Networks that end in a suppression of their own often leave out the batch.
    """
    if form.apart:
        shape = (*shape, 1)
    if form.ready and len(shape) == _ROWS:
        shape = (1, *shape)
    if len(shape) != _ROWS + 1 or shape[0] != 1:
        return 0, 0
    return (shape[2], shape[1]) if form.layout == "columns" else (shape[1], shape[2])


def _has_boxes(form: BoxForm, shape: tuple[int, ...], count: int) -> bool:
    """Return whether an output has a row with four values for each box; forms with priors may have points after."""
    if form.apart and shape == (count, 4):
        return True
    four = len(shape) == len((1, count, 4)) and (shape[2] == 4 or (form.priors != "none" and shape[2] > 4))
    return four and shape[:2] == (1, count)


def _say_order(asked: Boxes, more: int) -> str:
    """Return the shapes of the outputs that a form needs, in its order, for a message."""
    form = BOX_FORMS[asked.form]
    if form.apart:
        return "[1, boxes], [1, boxes, 4] and [1, boxes]"
    if form.split:
        third = " and [boxes, 4]" if form.priors != "none" and not asked.anchors else ""
        return f"[1, boxes, classes{' + 1' if form.spare else ''}] and [1, boxes, 4]{third}"
    wanted = str(form.own + more) if form.ready else f"{form.begin} + classes{f' + {more}' if more else ''}"
    return f"[1, {wanted}, boxes]" if form.layout == "columns" else f"[1, boxes, {wanted}]"


def _say_more(asked: Boxes, more: int) -> str:
    """Return where the number of values after the scores of a box comes from, for people."""
    if isinstance(asked, Keypoints):
        return f", with {more} values for {asked.points} points of {asked.values} values"
    return f", with {more} coefficients as the prototypes have" if more else ""
