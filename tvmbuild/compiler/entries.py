"""The functions of a package beside ``main``: from a camera's frame to the result, in one call.

``frameN`` is the whole way, ``prepareN`` makes the network's input of a frame, ``postprocess`` makes the results of the
network's outputs. ``frameN`` takes the frame, thresholds for each result, and the network's other inputs. They call the
functions that ``main`` calls, so that a frame adds a few kernels to the library.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.relax.utils import copy_with_new_vars

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.kernels.frames.prepare import Preparation, describe_preparation, write_along, write_down
from tvmbuild.compiler.kernels.results.canvas import Canvas, make_canvas, make_input_canvas
from tvmbuild.compiler.kernels.results.select import GEOMETRY
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import find_input_size
from tvmbuild.compiler.results.table import check_labels, describe_results
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.frames import POSTPROCESS, find_frame_geometry, frame_entry, prepare_entry
from tvmbuild.package.metadata import ModelInputs
from tvmbuild.package.preprocess import find_fit, find_rules, find_sizes


def add_entries(mod: tvm.ir.IRModule, interface: Interface, options: EntryOptions, *, on_gpu: bool) -> tvm.ir.IRModule:
    """Return the module with the functions that the options ask for, beside a scheduled ``main``.

    Raises TvmbuildError if the network's inputs or outputs do not have the forms that the options name.
    """
    if not options.frames and not options.postprocess:
        return mod
    writer = _Writer(mod, interface, options, on_gpu=on_gpu)
    writer.write()
    return writer.builder.get()


def check_entries(interface: Interface, options: EntryOptions) -> None:
    """Raise TvmbuildError if a model's inputs, outputs or labels do not have the forms that the options name."""
    check_labels(interface, options)
    for frame in options.frames:
        _describe_frame(interface, options.preprocess, frame)


class _Writer:
    def __init__(self, mod: tvm.ir.IRModule, interface: Interface, options: EntryOptions, *, on_gpu: bool) -> None:
        self.builder = relax.BlockBuilder(mod)
        self.main = relax.transform.ToNonDataflow()(mod)["main"]
        self.interface, self.options = interface, options
        self.calls = KernelCalls(self.builder, on_gpu=on_gpu)
        self.results = describe_results(interface, options)

    def write(self) -> None:
        """Add all functions."""
        if self.results:
            self._write_postprocess()
        for number, frame in enumerate(self.options.frames):
            form = _describe_frame(self.interface, self.options.preprocess, frame)
            self._write_prepare(number, form)
            self._write_frame(number, form)

    def _write_prepare(self, number: int, form: Preparation) -> None:
        frame = relax.Var("frame", relax.TensorType(form.frame.shape, "uint8"))
        with self.builder.function(prepare_entry(number), [frame]):
            self.builder.emit_func_output(self._prepare(form, frame))

    def _write_postprocess(self) -> None:
        infos = self.interface.outputs
        outputs = [
            relax.Var(f"output{place}", relax.TensorType(each.shape, each.dtype)) for place, each in enumerate(infos)
        ]
        thresholds = self._list_thresholds()
        geometry = relax.Var("geometry", relax.TensorType((GEOMETRY,), "float32"))
        with self.builder.function(POSTPROCESS, [*outputs, *thresholds, geometry]):
            canvas = _describe_input(self.interface, self.options.preprocess)
            self.builder.emit_func_output(self._write_results(outputs, thresholds, (geometry, canvas)))

    def _list_thresholds(self) -> list[relax.Var]:
        """Return new variables for the thresholds of each result."""
        names = ("thresholds" if number == 0 else f"thresholds{number}" for number in range(len(self.results)))
        return [relax.Var(name, relax.TensorType((2,), "float32")) for name in names]

    def _write_results(
        self, outputs: Sequence[relax.Expr], thresholds: Sequence[relax.Expr], place: tuple[relax.Expr, Canvas]
    ) -> relax.Tuple:
        """Write the calls of all results, and return their arrays. ``place`` are geometry and canvas."""
        arrays = []
        for result, limits in zip(self.results, thresholds, strict=True):
            read = [outputs[each] for each in result.places]
            arrays += result.write(self.calls, Request(read, limits, *place))
        return relax.Tuple(arrays)

    def _write_frame(self, number: int, form: Preparation) -> None:
        main = copy_with_new_vars(self.main)
        known = ModelInputs(self.interface.model, self.interface.inputs, self.options.preprocess)
        others = list(main.params)
        picture = others.pop(known.inputs.index(find_rules(known)[1]))
        frame = relax.Var("frame", relax.TensorType(form.frame.shape, "uint8"))
        thresholds = self._list_thresholds()
        with self.builder.function(frame_entry(number), [frame, *thresholds, *others]):
            prepared = self._prepare(form, frame)
            self.builder.emit_normalized(relax.VarBinding(picture, prepared))
            for block in main.body.blocks:
                for binding in block.bindings:
                    self.builder.emit_normalized(binding)
            found = main.body.body
            if not self.results:
                self.builder.emit_func_output(found)
            else:
                outputs = self._list_outputs(found)
                geometry = constant(find_frame_geometry(form.frame, form.fit))
                canvas = make_canvas(form.frame, form.fit, (form.height, form.width))
                self.builder.emit_func_output(self._write_results(outputs, thresholds, (geometry, canvas)))

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
    """Return the preparation of a frame. Raises TvmbuildError if no input of the model is a picture."""
    info = ModelInputs(interface.model, interface.inputs, rules)
    found, tensor = find_rules(info)
    height, width, _ = find_sizes(info, found, tensor)
    fit = find_fit(found, (frame.used.width, frame.used.height), (width, height))
    return describe_preparation(frame, found, fit, (height, width), (tensor.shape, tensor.dtype))
