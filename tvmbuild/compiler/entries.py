"""The functions of a package beside ``main``: from a camera's frame to the result, in one call.

``frameN`` is the whole way, ``prepareN`` makes the network's input of a frame, ``postprocess`` makes the result of the
network's outputs. They call the functions that ``main`` calls, so that a frame adds a few kernels to the library.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.utils import copy_with_new_vars

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.specs import Preprocess
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.kernels.frames.prepare import Preparation, describe_preparation, write_along, write_down
from tvmbuild.compiler.kernels.results.canvas import Canvas, make_canvas, make_input_canvas
from tvmbuild.compiler.kernels.results.select import GEOMETRY
from tvmbuild.compiler.results.form import KernelCalls, Request, ResultForm
from tvmbuild.compiler.results.outputs import find_input_size
from tvmbuild.compiler.results.table import describe_result
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.frames import POSTPROCESS, find_frame_geometry, frame_entry, prepare_entry
from tvmbuild.package.metadata import ModelInputs
from tvmbuild.package.preprocess import find_fit, find_rules, find_sizes


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
        self.interface, self.options = interface, options
        self.calls = KernelCalls(self.builder, on_gpu=on_gpu)
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
        infos = self.interface.outputs
        outputs = [
            relax.Var(f"output{place}", relax.TensorType(each.shape, each.dtype)) for place, each in enumerate(infos)
        ]
        thresholds = relax.Var("thresholds", relax.TensorType((2,), "float32"))
        geometry = relax.Var("geometry", relax.TensorType((GEOMETRY,), "float32"))
        with self.builder.function(POSTPROCESS, [*outputs, thresholds, geometry]):
            canvas = _describe_input(self.interface, self.options.preprocess)
            found = result.write(
                self.calls, Request([outputs[place] for place in result.places], thresholds, geometry, canvas)
            )
            self.builder.emit_func_output(relax.Tuple(found))

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
                geometry = constant(find_frame_geometry(form.frame, form.fit))
                canvas = make_canvas(form.frame, form.fit, (form.height, form.width))
                read = [outputs[place] for place in self.result.places]
                arrays = self.result.write(self.calls, Request(read, thresholds, geometry, canvas))
                self.builder.emit_func_output(relax.Tuple(arrays))

    def _list_outputs(self, found: relax.Expr) -> list[relax.Expr]:
        count = len(self.interface.outputs)
        if isinstance(found, relax.Tuple):
            return list(found.fields)
        if isinstance(found.ty, relax.TupleType):
            return [self.builder.emit(relax.TupleGetItem(found, place)) for place in range(count)]
        return [found]

    def _prepare(self, form: Preparation, frame: relax.Expr) -> relax.Expr:
        on_gpu = self.calls.on_gpu
        first, second = form.list_constants()
        along, down = write_along(form, on_gpu=on_gpu), write_down(form, on_gpu=on_gpu)
        (between,) = self.calls.add("frame_rows", along, [frame, *first], [form.between])
        (picture,) = self.calls.add("frame_columns", down, [between, *second], [(form.shape, form.dtype)])
        return picture


def _describe_input(interface: Interface, rules: Preprocess | None) -> Canvas:
    """Return the canvas of the network's own input. It has no pixels if the network takes no picture."""
    try:
        height, width = find_input_size(interface, rules)
    except TvmbuildError:  # results that need its size have been refused
        height = width = 0
    return make_input_canvas(height, width)


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
    fit = find_fit(found, (frame.used.width, frame.used.height), (width, height))
    return describe_preparation(frame, found, fit, (height, width), (tensor.shape, tensor.dtype))
