"""The sizes of a model's postprocessing, which its outputs must fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes, Classes, Postprocess
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.candidates import Candidates
from tvmbuild.compiler.kernels.results.classes import ClassScores
from tvmbuild.compiler.kernels.results.select import Selection
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import ModelInputs
from tvmbuild.package.preprocess import find_rules, find_sizes


@dataclass(frozen=True)
class ResultForm:
    """The outputs that a model's postprocessing reads, and the sizes of its kernels."""

    places: tuple[int, ...]
    candidates: Candidates | ClassScores
    selection: Selection


def describe_result(interface: Interface, options: EntryOptions, asked: Postprocess) -> ResultForm:
    """Return the sizes of the postprocessing. Raises TvmbuildError if the outputs do not have the named form."""
    if isinstance(asked, Classes):
        places = _find_outputs(interface, asked.outputs, 1)
        info = interface.outputs[places[0]]
        classes = int(np.prod(info.shape))
        if sum(size != 1 for size in info.shape) != 1 or (len(info.shape) > 1 and info.shape[0] != 1):
            raise TvmbuildError(
                f"`classes` needs an output with one score for each class; {info.name} is {list(info.shape)}",
                "correct `output` of its `postprocess` in models.yaml, or leave `postprocess` out",
            )
        scores = ClassScores(classes, (info.shape, info.dtype), asked.activation)
        return ResultForm(places, scores, Selection(classes, min(asked.most, classes), suppress=False))
    return _describe_boxes(interface, options, asked)


def propose_postprocess(interface: Interface) -> tuple[str, ...]:
    """Return a line of models.yaml for each meaning that the outputs of a network of pictures may have.

    Only shapes are looked at, so that a line is a proposal.
    """
    if len(interface.inputs) != 1 or len(interface.inputs[0].shape) != 4:
        return ()
    try:
        height, width = _input_size(interface, EntryOptions())
    except TvmbuildError:
        return ()
    cells = sum((height // stride) * (width // stride) for stride in (8, 16, 32))
    shapes = [each.shape for each in interface.outputs]
    found = [f"boxes: {{form: {form}}}" for form in _propose_forms(shapes, cells)]
    if not found and shapes and len(shapes[0]) == 2 and shapes[0][0] == 1 and shapes[0][1] > 1:
        found = ["classes: {}"]
    return tuple(f"postprocess: {{{each}}}" for each in found)


def _propose_forms(shapes: Sequence[tuple[int, ...]], cells: int) -> list[str]:
    """Return the forms of boxes that the first outputs may have, for an input with ``cells`` cells of three grids."""
    first, *others = [shape if len(shape) == 3 and shape[0] == 1 else (0, 0, 0) for shape in shapes] or [(0, 0, 0)]
    _, rows, values = first
    if others and others[0] == (1, rows, 4) and values > 1:
        return ["dfine", "detr"]
    if 0 < rows < cells and values == 6:
        return ["end2end"]
    if values == cells and rows > 4:
        return ["yolov8"]
    if rows == cells and values > 5:
        return ["yolox", "yolov5"]
    if rows > cells and values > 5:
        return ["yolov5"]
    return ["rtdetr"] if 0 < rows < cells and values > 5 else []


def _describe_boxes(interface: Interface, options: EntryOptions, asked: Boxes) -> ResultForm:
    form = BOX_FORMS[asked.form]
    places = _find_outputs(interface, asked.outputs, 2 if form.split else 1)
    infos = [interface.outputs[place] for place in places]
    needs_size = form.normalised or bool(form.strides)
    height, width = _input_size(interface, options) if needs_size else (0, 0)
    shape = infos[0].shape
    count, values = (0, 0) if len(shape) != 3 else ((shape[2], shape[1]) if form.layout == "columns" else shape[1:])
    classes = 1 if form.ready else values - form.begin - form.background
    wanted = str(form.begin + 2) if form.ready else f"{form.begin} + classes"
    order = f"[1, {wanted}, boxes]" if form.layout == "columns" else f"[1, boxes, {wanted}]"
    if form.split:
        order = f"[1, boxes, classes{' + 1' if form.background else ''}] and [1, boxes, 4]"
    candidates = Candidates(form, count, classes, tuple((each.shape, each.dtype) for each in infos), height, width)
    cells = candidates.list_cells()
    fits = len(shape) == 3 and shape[0] == 1 and count > 0 and classes > 0
    fits = fits and (not form.ready or values == form.begin + 2) and (cells is None or len(cells) == count)
    fits = fits and (not form.split or infos[1].shape == (1, count, 4))
    if not fits:
        shapes = ", ".join(f"{each.name} {list(each.shape)}" for each in infos)
        raise TvmbuildError(
            f"the boxes of the form {asked.form} are {order}; {interface.model} has {shapes}",
            "choose another `form` or `output` in its `postprocess` in models.yaml",
        )
    return ResultForm(places, candidates, Selection(count, asked.most, form.suppress, asked.agnostic))


def _find_outputs(interface: Interface, names: Sequence[str], count: int) -> tuple[int, ...]:
    """Return the places of the outputs with these names, or the first ``count`` outputs if there are no names."""
    known = [each.name for each in interface.outputs]
    for name in names:
        if name not in known:
            raise TvmbuildError(
                f"{interface.model} has no output {name}; its outputs are {', '.join(known)}",
                "correct its `postprocess` in models.yaml",
            )
    places = tuple(known.index(name) for name in names) or tuple(range(min(count, len(known))))
    if len(places) != count:
        raise TvmbuildError(
            f"this form of boxes is in {count} outputs; {interface.model} has or names {len(places)}",
            "correct its `postprocess` in models.yaml",
        )
    return places


def _input_size(interface: Interface, options: EntryOptions) -> tuple[int, int]:
    """Return height and width of the picture that the boxes are in."""
    if options.preprocess is not None:
        info = ModelInputs(interface.model, interface.inputs, options.preprocess)
        found, tensor = find_rules(info)
        return find_sizes(info, found, tensor)[:2]
    shape = interface.inputs[0].shape if interface.inputs else ()
    if len(shape) != 4:
        raise TvmbuildError(
            f"this form of boxes needs the size of a picture, and {interface.model} takes none as its first input",
            "add `preprocess` to the model in models.yaml",
        )
    return (shape[2], shape[3]) if shape[1] in (1, 3) else (shape[1], shape[2])
