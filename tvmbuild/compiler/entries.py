"""The functions of a package beside ``main``: from a camera's frame to the result, in one call.

``frameN`` is the whole way, ``prepareN`` makes the network's input of a frame, ``postprocess`` makes the result of the
network's outputs. They call the functions that ``main`` calls, so that a frame adds a few kernels to the library.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax, tirx
from tvm.relax.utils import copy_with_new_vars

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.specs import Preprocess
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.kernels.frames.prepare import Preparation, describe_preparation, write_along, write_down
from tvmbuild.compiler.kernels.results.candidates import write_candidates
from tvmbuild.compiler.kernels.results.classes import ClassScores, write_classes
from tvmbuild.compiler.kernels.results.select import GEOMETRY, list_candidate_forms, write_selection
from tvmbuild.compiler.result_forms import ResultForm, describe_result
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.frames import POSTPROCESS, find_geometry, frame_entry, prepare_entry
from tvmbuild.package.metadata import ModelInputs
from tvmbuild.package.preprocess import find_fit, find_rules, find_sizes

_RESULTS = 4
"""The outputs of the last kernel that are the result: boxes, scores, classes, count. The others are its memory."""


def add_entries(mod: tvm.ir.IRModule, interface: Interface, options: EntryOptions, *, on_gpu: bool) -> tvm.ir.IRModule:
    """Return the module with the functions that the options ask for, beside a scheduled ``main``.

    Raises TvmbuildError if the network's inputs or outputs do not have the forms that the options name.
    """
    if not options.frames and options.postprocess is None:
        return mod
    writer = _Writer(mod, interface, options, on_gpu=on_gpu)
    writer.write()
    return writer.builder.get()


def check_entries(interface: Interface, options: EntryOptions) -> None:
    """Raise TvmbuildError if a model's inputs or outputs do not have the forms that the options name."""
    if options.postprocess is not None:
        describe_result(interface, options, options.postprocess)
    for frame in options.frames:
        _describe_frame(interface, options.preprocess, frame)


class _Writer:
    def __init__(self, mod: tvm.ir.IRModule, interface: Interface, options: EntryOptions, *, on_gpu: bool) -> None:
        self.builder = relax.BlockBuilder(mod)
        self.main = relax.transform.ToNonDataflow()(mod)["main"]
        self.interface, self.options, self.on_gpu = interface, options, on_gpu
        asked = options.postprocess
        self.result = None if asked is None else describe_result(interface, options, asked)

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

    def _write_postprocess(self, result: ResultForm) -> None:
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
        self, result: ResultForm, outputs: Sequence[relax.Expr], thresholds: relax.Expr, geometry: relax.Expr
    ) -> relax.Expr:
        form = result.candidates
        read = [outputs[place] for place in result.places]
        if isinstance(form, ClassScores):
            arguments, function = read, write_classes(form, on_gpu=self.on_gpu)
        else:
            cells = form.list_cells()
            arguments = [*read, *([] if cells is None else [constant(cells)]), thresholds]
            function = write_candidates(form, on_gpu=self.on_gpu)
        types = [relax.TensorType(*each) for each in list_candidate_forms(form.count)]
        found = self._call("candidates", function, arguments, types)
        parts = [self.builder.emit(relax.TupleGetItem(found, place)) for place in range(len(types))]
        chosen = [relax.TensorType(*each) for each in result.selection.list_outputs()]
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
