"""The functions of a package beside ``main``: from a camera's frame to the result, in one call.

``frameN`` is the whole way, ``prepareN`` makes the network's input of a frame, ``postprocess`` makes the result of the
network's outputs. They call the functions that ``main`` calls, so that a frame adds a few kernels to the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax.utils import copy_with_new_vars

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes, BoxForm, Classes, Postprocess
from tvmbuild.base.specs import Preprocess
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.kernels.frames.prepare import Preparation, describe_preparation, write_along, write_down
from tvmbuild.compiler.kernels.results.candidates import Candidates, write_candidates
from tvmbuild.compiler.kernels.results.select import GEOMETRY, Selection, write_selection
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.frames import find_geometry, frame_entry, prepare_entry
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.preprocess import find_fit, find_rules, find_sizes

POSTPROCESS = "postprocess"
"""The name of the function that makes the result of the network's outputs."""
_RESULTS = 4
"""The outputs of the last kernel that are the result: boxes, scores, classes, count. The others are its memory."""


@dataclass(frozen=True)
class EntryOptions:
    """The frames that a package takes and the result that it makes."""

    preprocess: Preprocess | None = None
    frames: tuple[Frame, ...] = ()
    postprocess: Postprocess | None = None


@dataclass(frozen=True)
class Interface:
    """The inputs and outputs of ``main``, and the model's name for messages."""

    model: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


@dataclass(frozen=True)
class _Result:
    """What the postprocessing of a model needs: which outputs it reads, and the kernels' sizes."""

    places: tuple[int, ...]
    candidates: Candidates
    selection: Selection


def add_entries(mod: tvm.ir.IRModule, interface: Interface, options: EntryOptions, *, on_gpu: bool) -> tvm.ir.IRModule:
    """Return the module with the functions that the options ask for, beside a scheduled ``main``.

    Raises TvmbuildError if the network's inputs or outputs do not have the forms that the options name.
    """
    if not options.frames and options.postprocess is None:
        return mod
    writer = _Writer(mod, interface, options, on_gpu=on_gpu)
    writer.write()
    return writer.builder.get()


class _Writer:
    def __init__(self, mod: tvm.ir.IRModule, interface: Interface, options: EntryOptions, *, on_gpu: bool) -> None:
        self.builder = relax.BlockBuilder(mod)
        self.main = relax.transform.ToNonDataflow()(mod)["main"]
        self.interface, self.options, self.on_gpu = interface, options, on_gpu
        self.result = None if options.postprocess is None else _describe_result(interface, options)

    def write(self) -> None:
        """Add all functions."""
        if self.result is not None:
            self._write_postprocess(self.result)
        for number, frame in enumerate(self.options.frames):
            form = _describe_frame(self.interface, self.options.preprocess, frame)
            self._write_prepare(number, form)
            self._write_frame(number, form)

    def _write_prepare(self, number: int, form: Preparation) -> None:
        frame = relax.Var("frame", relax.TensorType(form.frame.shape, "uint8"))
        with self.builder.function(prepare_entry(number), [frame]):
            self.builder.emit_func_output(self._prepare(form, frame))

    def _write_postprocess(self, result: _Result) -> None:
        types = [self._output_type(place) for place in range(len(self.interface.outputs))]
        outputs = [relax.Var(f"output{place}", each) for place, each in enumerate(types)]
        thresholds = relax.Var("thresholds", relax.TensorType((2,), "float32"))
        geometry = relax.Var("geometry", relax.TensorType((GEOMETRY,), "float32"))
        with self.builder.function(POSTPROCESS, [*outputs, thresholds, geometry]):
            self.builder.emit_func_output(self._postprocess(result, outputs, thresholds, geometry))

    def _write_frame(self, number: int, form: Preparation) -> None:
        main = copy_with_new_vars(self.main)
        (picture,) = main.params
        frame = relax.Var("frame", relax.TensorType(form.frame.shape, "uint8"))
        thresholds = relax.Var("thresholds", relax.TensorType((2,), "float32"))
        params = [frame] if self.result is None else [frame, thresholds]
        with self.builder.function(frame_entry(number), params):
            prepared = self._prepare(form, frame)
            self.builder.emit_normalized(relax.VarBinding(picture, prepared))
            for block in main.body.blocks:
                for binding in block.bindings:
                    self.builder.emit_normalized(binding)
            found = main.body.body
            if self.result is None:
                self.builder.emit_func_output(found)
            else:
                outputs = self._list_outputs(found)
                size = (form.frame.width, form.frame.height)
                geometry = constant(find_geometry(form.fit, size))
                self.builder.emit_func_output(self._postprocess(self.result, outputs, thresholds, geometry))

    def _list_outputs(self, found: relax.Expr) -> list[relax.Expr]:
        count = len(self.interface.outputs)
        if isinstance(found, relax.Tuple):
            return list(found.fields)
        if isinstance(found.ty, relax.TupleType):
            return [self.builder.emit(relax.TupleGetItem(found, place)) for place in range(count)]
        return [found]

    def _prepare(self, form: Preparation, frame: relax.Expr) -> relax.Expr:
        first, second = (list(map(constant, each)) for each in form.list_constants())
        shape, dtype = form.between
        along = write_along(form, on_gpu=self.on_gpu)
        between = self._call("frame_rows", along, [frame, *first], [relax.TensorType(shape, dtype)])
        down = write_down(form, on_gpu=self.on_gpu)
        return self._call("frame_columns", down, [between, *second], [relax.TensorType(form.shape, form.dtype)])

    def _postprocess(
        self, result: _Result, outputs: Sequence[relax.Expr], thresholds: relax.Expr, geometry: relax.Expr
    ) -> relax.Expr:
        cells = result.candidates.list_cells()
        read = [outputs[place] for place in result.places]
        arguments = [*read, *([] if cells is None else [constant(cells)]), thresholds]
        count = result.candidates.count
        types = [
            relax.TensorType((count, 4), "float32"),
            relax.TensorType((count,), "float32"),
            relax.TensorType((count,), "int32"),
        ]
        found = self._call(
            "candidates", write_candidates(result.candidates, on_gpu=self.on_gpu), arguments, types
        )
        parts = [self.builder.emit(relax.TupleGetItem(found, place)) for place in range(len(types))]
        chosen = [relax.TensorType(shape, dtype) for shape, dtype in result.selection.list_outputs()]
        function = write_selection(result.selection, on_gpu=self.on_gpu)
        selected = self._call("selection", function, [*parts, thresholds, geometry], chosen)
        return relax.Tuple([self.builder.emit(relax.TupleGetItem(selected, place)) for place in range(_RESULTS)])

    def _call(
        self, name: str, function: tirx.PrimFunc, arguments: list[relax.Expr], types: list[relax.TensorType]
    ) -> relax.Expr:
        variable = self.builder.add_func(function, name)
        return self.builder.emit(relax.call_tir(variable, arguments, types if len(types) > 1 else types[0]))

    def _output_type(self, place: int) -> relax.TensorType:
        info = self.interface.outputs[place]
        return relax.TensorType(info.shape, info.dtype)


def _describe_frame(interface: Interface, rules: Preprocess | None, frame: Frame) -> Preparation:
    """Return the preparation of a frame. Raises TvmbuildError if the model takes other inputs than one picture."""
    if len(interface.inputs) != 1:
        names = ", ".join(each.name for each in interface.inputs)
        raise TvmbuildError(
            f"`frame` needs a model whose only input is a picture; {interface.model} has the inputs {names}",
            "fix the other inputs with `value` in models.yaml, or leave `frame` out and use `session.preprocess`",
        )
    info = ModelInputs(interface.model, interface.inputs, rules)
    found, tensor = find_rules(info)
    height, width, _ = find_sizes(info, found, tensor)
    fit = find_fit(found, (frame.width, frame.height), (width, height))
    return describe_preparation(frame, found, fit, (height, width), (tensor.shape, tensor.dtype))


def _describe_result(interface: Interface, options: EntryOptions) -> _Result:
    """Return the sizes of the postprocessing. Raises TvmbuildError if the outputs do not have the named form."""
    asked = options.postprocess
    if isinstance(asked, Classes):
        places = _find_outputs(interface, asked.outputs, 1)
        info = interface.outputs[places[0]]
        classes = int(np.prod(info.shape))
        if sum(size != 1 for size in info.shape) != 1:
            raise TvmbuildError(
                f"`classes` needs an output with one score for each class; {info.name} is {list(info.shape)}",
                "name another one in `output`, or leave `postprocess` out",
            )
        # Each class is a candidate with one score.
        form = BoxForm(layout="columns", activation=asked.activation)
        candidates = Candidates(form, classes, 1, ((info.shape, info.dtype),), is_classes=True)
        return _Result(places, candidates, Selection(classes, min(asked.most, classes), suppress=False))
    assert isinstance(asked, Boxes)
    return _describe_boxes(interface, options, asked)


def _describe_boxes(interface: Interface, options: EntryOptions, asked: Boxes) -> _Result:
    form = BOX_FORMS[asked.form]
    places = _find_outputs(interface, asked.outputs, 2 if form.split else 1)
    infos = [interface.outputs[place] for place in places]
    height, width = _input_size(interface, options)
    begin = 0 if form.split else 4 + form.objectness
    shape = infos[0].shape
    count, values = (0, 0) if len(shape) != 3 else ((shape[2], shape[1]) if form.layout == "columns" else shape[1:])
    classes = 1 if form.ready else values - begin
    wanted = {"yolov5": "5 + classes", "yolox": "5 + classes", "end2end": "6"}.get(asked.form, "4 + classes")
    order = f"[1, {wanted}, boxes]" if form.layout == "columns" else f"[1, boxes, {wanted}]"
    order = "[1, boxes, classes] and [1, boxes, 4]" if form.split else order
    candidates = Candidates(form, count, classes, tuple((each.shape, each.dtype) for each in infos), height, width)
    cells = candidates.list_cells()
    fits = len(shape) == 3 and shape[0] == 1 and count > 0 and classes > 0
    fits = fits and (not form.ready or values == begin + 2) and (cells is None or len(cells) == count)
    fits = fits and (not form.split or infos[1].shape == (1, count, 4))
    if not fits:
        shapes = ", ".join(f"{each.name} {list(each.shape)}" for each in infos)
        raise TvmbuildError(
            f"the boxes of the form {asked.form} are {order}; {interface.model} has {shapes}",
            "choose another `form` or `output` in its `postprocess` in models.yaml",
        )
    return _Result(places, candidates, Selection(count, asked.most, form.suppress, asked.agnostic))


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
    shape = interface.inputs[0].shape
    if len(shape) != 4:
        raise TvmbuildError(
            f"`boxes` needs a picture as the input; {interface.inputs[0].name} of {interface.model} is {list(shape)}",
            "add `preprocess` to the model in models.yaml",
        )
    return (shape[2], shape[3]) if shape[1] in (1, 3) else (shape[1], shape[2])
