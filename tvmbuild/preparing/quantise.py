"""The quantisation of a float model to 8-bit integers by a library, with a check and the new reference numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
from onnx.shape_inference import InferenceError

from tvmbuild.base.operator_losses import OperatorLoss
from tvmbuild.base.progress import report_progress
from tvmbuild.base.quantize_specs import Quantize
from tvmbuild.base.specs import Tolerance
from tvmbuild.base.wording import count
from tvmbuild.compiler.importing.expand.scope import find_opset
from tvmbuild.compiler.importing.reading import name_nodes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.samples import Samples
from tvmbuild.preparing.calibration import find_doubts, list_rounded, measure_ranges
from tvmbuild.preparing.compare import compare, find_error
from tvmbuild.preparing.interface import explain_changed_interface
from tvmbuild.preparing.keep.choose import Choice
from tvmbuild.preparing.keep.control import Control
from tvmbuild.preparing.keep.errors import Arrays
from tvmbuild.preparing.keep.groups import MOVERS, PRODUCTS
from tvmbuild.preparing.keep.reduced import QuantisedModel, Reduced
from tvmbuild.preparing.keep.restore import restore
from tvmbuild.preparing.losses import measure_losses
from tvmbuild.preparing.node_words import find_nodes
from tvmbuild.preparing.onnx_graph import find_precision, set_output_shapes
from tvmbuild.preparing.quantised_constants import take_constants
from tvmbuild.preparing.quantisers.counted import CountedSamples
from tvmbuild.preparing.quantisers.quantiser import Work
from tvmbuild.preparing.quantisers.table import QUANTISERS
from tvmbuild.preparing.reference import ORT_ERRORS, Reference, make_references, run_onnx

COMPARED = 4
"""The number of samples on which the quantised model is compared with the float one, and with itself."""
UNCERTAIN = 0.25
"""The uncertainty, as a share of an output's largest value, above which comparing packages is pointless. A package may
be twice as far off as a model's own numbers are uncertain.
"""
_FAILURES = (*ORT_ERRORS, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""The errors that libraries raise over models they cannot quantise."""
_SAME = Tolerance(rtol=1e-3, atol=1e-4)
"""The tolerance between a model and the same model in a later opset."""


@dataclass(frozen=True)
class Quantised:
    """The quantised model, its reference numbers, and the facts of its quantisation."""

    model: bytes
    """ONNX in the QDQ form, or the given model if that was quantised already."""
    reference: Reference
    method: str | None
    """The library used; None if the model came quantised."""
    samples: int = 0
    products: int = 0
    """The number of convolutions and matrix products."""
    in_floats: tuple[str, ...] = ()
    """The names of the products that stay in floats."""
    error: float | None = None
    """The largest difference from the float model on a few of the samples, over the largest value of an output; also
    None if it is not finite.
    """

    choice: Choice | None = None
    """The operators in floats that a search found, or None if there was no search."""
    losses: tuple[OperatorLoss, ...] = ()
    """The errors at each operator with quantised operands."""
    doubts: tuple[str, ...] = ()
    """The reasons to doubt the samples that calibrated the quantisation."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The report's notes about it."""
        return (*self._list_notes(), *self.doubts, *([] if self.choice is None else [self.choice.describe()]))

    def _list_notes(self) -> tuple[str, ...]:
        if self.method is None:
            return ("came quantised: `quantize:` has nothing to do",)
        far = "its outputs cannot be compared with the float model's: other sizes, or not finite"
        if self.error is not None:
            far = f"outputs up to {self.error:.1%} of their largest value from the float model's"
        said = f"quantised by {self.method} with {count(self.samples, 'sample')}: {far}"
        if self.reference.spread > UNCERTAIN:
            said += (
                f"; a rounding error moves them by {self.reference.spread:.0%}, "
                "so that the comparison of packages says little: give the model `accuracy`"
            )
        floats = f"{len(self.in_floats)} of {self.products} products stay in floats: {', '.join(self.in_floats)}"
        return (said, floats) if self.in_floats else (said,)

    def to_json(self) -> dict[str, object]:
        """Return the JSON value of `quantize.json`."""
        return {
            "format": 1,
            "method": self.method,
            "samples": self.samples,
            "products": self.products,
            "in_floats": list(self.in_floats),
            "error": self.error,
            "doubts": list(self.doubts),
            "losses": [asdict(each) for each in self.losses],
            **({} if self.choice is None else {"kept": self.choice.to_json()}),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class FloatModel:
    """A simplified model."""

    data: bytes
    """ONNX."""
    reference: Reference
    """Its own numbers."""
    name: str
    """The name in messages."""


Choose = Callable[[Reduced], Choice]
"""A function that chooses the operators of a quantised model that stay in floats."""


@dataclass(frozen=True)
class Guard:
    """The inputs that a model will see, and the way to keep its accuracy on them."""

    samples: Iterable[Arrays] | None = None
    """The inputs, with which those of the calibration are compared in one walk, or None if there are none."""
    choose: Choose | None = None
    """A search for operators that stay in floats."""
    control: Control | None = None
    """The accuracy that the library itself is to keep."""
    like: Any = None
    """The quantised ModelProto of another size whose constants the model takes, or None if it has its own."""
    is_of_largest: bool = True
    """True if the model has its largest size. Its samples and errors stand for those of all sizes."""


def quantise(
    given: FloatModel,
    options: Quantize,
    samples: Samples,
    guard: Guard = Guard(),
) -> Quantised:
    """Quantise the model ``given``. The ``guard`` may leave operators in floats, so that the accuracy is kept.

    The result has the same inputs and outputs, and its own reference for the first sample. TvmbuildError for samples
    that do not fit, an exclusion that matches nothing, a failure of the library, and products that it left in floats.
    """
    model, reference, name = given.data, given.reference, given.name
    proto = onnx.load_model_from_string(model)
    precision = find_precision(proto)
    if precision == "int8":
        return Quantised(model, reference, None)
    if precision != "fp32":
        raise TvmbuildError(
            f"{name} is a model of {precision}, but quantising needs a float32 model",
            "give the float32 model, or remove `quantize:`",
        )
    modern = _modernise(model, reference, name)
    excluded = find_nodes(modern, options.exclude, name, "`exclude:` of its `quantize:`")
    report_progress(f"quantising by {options.method}")
    original = onnx.ModelProto.FromString(modern.SerializeToString())  # a library may change its model
    started, counted = time.monotonic(), CountedSamples(samples, options.method)
    quantised = _call_library(Work(modern, counted, excluded, guard.control), options.method, name)
    doubts = _find_doubts(quantised, original, samples, guard.samples) if guard.is_of_largest else ()
    make_unsigned(quantised)
    quantised = restore(quantised, original, _list_half_rounded(quantised))
    choice = None
    if guard.control is not None:
        choice = guard.control.describe(quantised, original, started)
        _require_enough(choice, name)
    if guard.choose is not None:
        reduced = QuantisedModel(quantised, original)
        choice = guard.choose(reduced)
        quantised = reduced.build(choice.nodes)
        if find_precision(quantised) != "int8":
            raise TvmbuildError(
                f"{name} is accurate enough only with all of its operators in floats; quantised: {choice.before.told}",
                "leave its int8 targets out: `targets: {exclude: […]}`, or allow a larger loss in its `accuracy:`.",
            )
    if guard.like is not None:
        take_constants(quantised, guard.like, name)
    set_output_shapes(quantised, dict(reference.outputs))
    _check(quantised, proto, options.method, name)
    report_progress("running the quantised model")
    made = replace(_describe(quantised, model, samples, options.method), choice=choice, doubts=doubts)
    if not guard.is_of_largest:
        return made
    report_progress("measuring each operator's error")
    shown = list(islice(samples if guard.samples is None else guard.samples, COMPARED))
    return replace(made, losses=measure_losses(quantised, original, shown))


def _require_enough(choice: Choice, name: str) -> None:
    if not choice.after.is_enough:
        raise TvmbuildError(
            f"{name} is not accurate enough with the operators that NNCF returned to floats: "
            + "; ".join(choice.after.shortfalls),
            "write `keep: auto` in place of `accuracy_control`, or correct the thresholds of its `accuracy:`.",
        )


def _find_doubts(quantised: Any, original: Any, samples: Samples, judged: Iterable[Arrays] | None) -> tuple[str, ...]:
    names = list_rounded(quantised, original)
    if not names:
        return ()
    others = None
    try:
        seen = measure_ranges(original, names, samples, "looking at the calibration samples")
        if judged is not None:
            others = measure_ranges(original, names, judged, "looking at the samples of accuracy")
    except TvmbuildError as error:  # an activation without elements has no range
        return (f"whether the calibration samples suffice is not known: {error.message}",)
    return find_doubts(seen, others)


def _modernise(model: bytes, reference: Reference, name: str) -> Any:
    """Return the model in an opset that can be quantised; if that is another one, its numbers are compared."""
    proto = onnx.load_model_from_string(model)
    before = find_opset(proto)
    modern = modernise(proto, name)
    after = find_opset(modern)
    if before != after:
        got = run_onnx(modern.SerializeToString(), reference.inputs, f"{name} in the opset {after}")
        problem = compare(got, reference.outputs, _SAME).problem
        if problem is not None:
            raise TvmbuildError(
                f"{name}, converted from the opset {before} to {after}, computes other numbers: {problem}",
                f"export the model with the opset {after} or later",
            )
    return modern


def _call_library(work: Work, method: str, name: str) -> Any:
    try:
        return QUANTISERS[method](work)
    except _FAILURES as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        hint = f"try {_name_others(method)}, or leave operators out by `exclude:`"
        raise TvmbuildError(f"{method} cannot quantise {name}: {reason}", hint) from error


def _name_others(method: str) -> str:
    return " or ".join(f"`method: {other}`" for other in QUANTISERS if other != method)


def _check(quantised: Any, original: Any, method: str, name: str) -> None:
    """Raise TvmbuildError for an invalid model, for changed inputs or outputs, or if it is not quantised."""
    problem = explain_changed_interface(original, quantised, method)
    if problem is None and find_precision(quantised) != "int8":
        raise TvmbuildError(
            f"{method} left all of {name} in floats",
            "exclude fewer operators; a model without convolutions and products gains nothing, so remove `quantize:`",
        )
    try:
        onnx.checker.check_model(quantised, full_check=True)
    except (onnx.checker.ValidationError, InferenceError) as error:
        problem = problem or f"{method} wrote no right model: {' '.join(str(error).split())}"
    if problem is not None:
        raise TvmbuildError(f"{name} cannot be quantised: {problem}", f"try {_name_others(method)}")


def _describe(quantised: Any, model: bytes, samples: Samples, method: str) -> Quantised:
    data: bytes = quantised.SerializeToString(deterministic=True)
    made = make_references(data, list(islice(samples, COMPARED)), "int8", "the quantised model")
    errors = [find_error(each.outputs, run_onnx(model, each.inputs, "the float model")) for each in made]
    floats, products = _list_float_products(quantised)
    error = max(errors)
    return Quantised(data, made[0], method, len(samples), products, floats, error if math.isfinite(error) else None)


def _list_float_products(proto: Any) -> tuple[tuple[str, ...], int]:
    """Return the names of the products without two integer operands, and the number of all products."""
    makers = {name: node for node in proto.graph.node for name in node.output}
    products = [node for node in proto.graph.node if node.op_type in PRODUCTS]
    floats = [node.name for node in products if not all(_is_of_integers(name, makers) for name in node.input[:2])]
    return tuple(floats), len(products)


def _list_half_rounded(proto: Any) -> list[str]:
    """Return the names of the products with one rounded operand: they compute in floats, and rounding only harms."""
    makers = {name: node for node in proto.graph.node for name in node.output}
    products = [node for node in proto.graph.node if node.op_type in PRODUCTS]
    integers = [[_is_of_integers(name, makers) for name in node.input[:2]] for node in products]
    return [node.name for node, each in zip(products, integers, strict=True) if any(each) and not all(each)]


def _is_of_integers(name: str, makers: Mapping[str, Any]) -> bool:
    while name in makers and makers[name].op_type in MOVERS - {"Concat"}:
        name = makers[name].input[0]
    if name not in makers:
        return False
    if makers[name].op_type == "Concat":
        return all(_is_of_integers(each, makers) for each in makers[name].input)
    return bool(makers[name].op_type == "DequantizeLinear")


# The form that quantisers need: an opset with scales for each channel, and a name for every node.

OPSET = 13
"""The first opset in which a weight has a scale for each channel."""
_IR_VERSION = 8
"""The lowest format version for that opset; from it on, constants need not be inputs."""


def modernise(proto: Any, name: str) -> Any:
    """Return the ModelProto, changed if necessary; TvmbuildError if ONNX cannot express it in the opset."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    fed = [value for value in proto.graph.input if value.name not in constants]
    del proto.graph.input[:]
    proto.graph.input.extend(fed)
    proto.ir_version = max(proto.ir_version, _IR_VERSION)
    if find_opset(proto) < OPSET:
        proto = _convert(proto, name)
    name_nodes(proto)
    return proto


def _convert(proto: Any, name: str) -> Any:
    try:
        return onnx.version_converter.convert_version(proto, OPSET)
    except (onnx.version_converter.ConvertError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise TvmbuildError(
            f"{name} is of the opset {find_opset(proto)} and cannot be expressed in {OPSET}, "
            f"which quantising needs: {reason}",
            f"export the model with the opset {OPSET} or later, or remove `quantize:`",
        ) from error


# Int8 activations become uint8: the same numbers, which processors multiply fastest with int8 weights.

_SHIFT = 128


def make_unsigned(proto: Any) -> None:
    """Give every int8 activation between QuantizeLinear and DequantizeLinear a zero point of uint8 (in place)."""
    graph = proto.graph
    zeros = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
    outputs = {value.name for value in graph.output}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    taken = {name for tensor in (*graph.initializer, *graph.node) for name in _list_names(tensor)}
    made: dict[str, str] = {}
    for node in graph.node:
        if node.op_type != "QuantizeLinear" or len(node.input) < 3 or node.input[2] not in zeros:
            continue
        followers = readers.get(node.output[0], [])
        alike = all(
            each.op_type == "DequantizeLinear" and each.input[2:3] and each.input[2] in zeros for each in followers
        )
        if node.output[0] in outputs or not followers or not alike:
            continue
        for each in (node, *followers):
            each.input[2] = _shift(graph, zeros[each.input[2]], made, taken)
    used = {name for node in graph.node for name in node.input} | outputs
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.value_info[:]  # the old types


def _list_names(item: Any) -> list[str]:
    return [item.name] if isinstance(item, onnx.TensorProto) else [*item.input, *item.output]


def _shift(graph: Any, zero: Any, made: dict[str, str], taken: set[str]) -> str:
    """Return the name of the zero point as uint8."""
    if zero.name not in made:
        name = f"{zero.name}_uint8"
        while name in taken:
            name += "_"
        taken.add(name)
        values = onnx.numpy_helper.to_array(zero).astype(np.int16) + _SHIFT
        graph.initializer.append(onnx.numpy_helper.from_array(values.astype(np.uint8), name))
        made[zero.name] = name
    return made[zero.name]
