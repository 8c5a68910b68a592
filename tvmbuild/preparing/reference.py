"""Seeded inputs, ONNX Runtime's outputs for them, and the file that holds both."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    RuntimeException,
)
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as OrtNotImplemented

from tvmbuild.base.files import publish
from tvmbuild.base.specs import InputSpec, Tolerance
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.compare import Arrays, Comparison, compare, find_error
from tvmbuild.preparing.exact_integers import use_exact_integers

ORT_ERRORS = (EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, OrtNotImplemented, RuntimeException)
_PRECISION = "precision"
_SPREAD = "spread"
SPREADS = 2.0
"""The largest difference of a package from the reference, in multiples of the spread of ONNX Runtime's own numbers."""
_EXACT = ("session.x64quantprecision", "1")
"""The option with which optimised QDQ models compute with uint8 weights on x86 without VNNI. Sums of int8 saturate
there, as `exact_integers` explains; it changes the weights of operators that a file has itself. ONNX Runtime 1.32
cannot do this to some models, such as those with QLinearMatMul of int8 or with a weight that two operators share.
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)


Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def _as_is(run: Run) -> Run:
    return run


@dataclass(frozen=True)
class Reference:
    """Inputs, and the original model's outputs for them."""

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    precision: str = "fp32"
    """The precision of the original model, which decides the tolerance of other numbers."""
    specials: Reference | None = None
    """The same for inputs with infinities and NaN, if an operator could treat them differently."""
    spread: float = 0.0
    """The uncertainty of a quantised model: how far equally right numbers are off, over the largest value of an output.

    Two kinds of numbers count as equally right: those of ONNX Runtime with its optimisations, and those after a
    rounding error in the weights' scales.
    """

    rounding: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The movement of each element under rounding errors, for outputs that move beyond the default tolerance."""

    @property
    def not_finite(self) -> str | None:
        """The inputs that hold NaN or infinity, in words. None if all numbers are finite."""
        counts = [(name, np.count_nonzero(~np.isfinite(value)), value.size) for name, value in self.inputs.items()]
        told = [f"{count} of {size} elements of the input {name}" for name, count, size in counts if count]
        return f"NaN or infinity in {', '.join(told)}" if told else None

    def compare(self, got: Arrays, tolerance: Tolerance) -> Comparison:
        """Compare other numbers for the same inputs with the outputs. A fault names inputs that are not finite."""
        comparison = compare(got, self.outputs, self.allow(tolerance), self.rounding)
        if comparison.problem is None or self.not_finite is None:
            return comparison
        return replace(comparison, problem=f"{self.not_finite}, and {comparison.problem}")

    def allow(self, tolerance: Tolerance) -> Tolerance:
        """Return the tolerance for other numbers, at least ``tolerance``."""
        allowed = tolerance.at_least(self.precision)
        return replace(allowed, of_largest=max(allowed.of_largest, SPREADS * self.spread))


def explain_difference(comparison: Comparison, reference: Reference, cell: str) -> str:
    """Return the remedies for numbers of a cell that differ from the reference's."""
    if not comparison.comparable:
        return "no tolerance helps: rewrite or replace in the model what makes this output"
    moved = max((float(each.max()) for each in reference.rounding.values()), default=0.0)
    rounds = f"; rounding errors alone change the outputs by up to {moved:.3g}" if moved else ""
    errors = f"largest error {comparison.max_abs_error:.3g} absolute, {comparison.max_rel_error:.3g} relative"
    if not comparison.max_abs_error:
        errors = "no finite error was found (NaN, infinities, or other rows)"
    return (
        f"{errors}{rounds}; `tvmbuild debug {cell}` names the operator; if the model is made for other inputs than "
        "random numbers in [-1, 1), state their `range:` in models.yaml, and if this error is good enough for the "
        "model, raise its `tolerance:` there"
    )


def make_inputs(tensors: Sequence[TensorInfo], specs: Sequence[InputSpec], seed: int) -> dict[str, np.ndarray]:
    """Draw every input from its range: the same seed gives the same bytes on every machine and NumPy."""
    wanted = {spec.name: spec for spec in specs}
    random = np.random.RandomState(seed)  # unlike Generator's, its streams are frozen for good
    return {t.name: _draw(random, t, wanted.get(t.name, InputSpec(t.name))) for t in tensors}


def _draw(random: np.random.RandomState, tensor: TensorInfo, spec: InputSpec) -> np.ndarray:
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "b":
        return random.randint(0, 2, tensor.shape).astype(dtype)
    integer = dtype.kind in "iu"
    low = (0.0 if integer else -1.0) if spec.low is None else spec.low
    high = (2.0 if integer else 1.0) if spec.high is None else spec.high
    if integer:
        limits = np.iinfo(dtype)
        first, end = max(math.ceil(low), int(limits.min)), min(math.ceil(high), int(limits.max) + 1)
        if first >= end:
            raise TvmbuildError(
                f"the input {tensor.name} has no {dtype} in [{low}, {high})", "correct `range:` in models.yaml"
            )
        if end > np.iinfo(np.int64).max:
            return random.randint(first, end, tensor.shape, dtype=np.uint64).astype(dtype)
        return random.randint(first, end, tensor.shape, dtype=np.int64).astype(dtype)
    if not low < high:
        raise TvmbuildError(
            f"the range [{low}, {high}) of the input {tensor.name} is empty", "correct `range:` in models.yaml"
        )
    return random.uniform(low, high, tensor.shape).astype(dtype)


def run_onnx(
    model: bytes, inputs: Mapping[str, np.ndarray], what: str, *, optimized: bool = False
) -> dict[str, np.ndarray]:
    """Run the model once; raises as `open_onnx` does."""
    return open_onnx(model, what, optimized=optimized)(inputs)


class OnnxRun:
    """A model in a session of ONNX Runtime. Several threads may run it at once."""

    def __init__(self, session: onnxruntime.InferenceSession, what: str) -> None:
        """Prepare for a session of the model that messages call ``what``."""
        self._session, self._what = session, what
        self._names = [output.name for output in session.get_outputs()]

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs for the inputs (name → array). Raises TvmbuildError with ONNX Runtime's own reason."""
        with _explained(self._what, _ON_INPUTS):
            values = self._session.run(self._names, dict(inputs))
        outputs = dict(zip(self._names, values, strict=True))
        for name, value in outputs.items():
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiubc":
                raise TvmbuildError(
                    f"the output {name} of {self._what} is not a numeric tensor",
                    "remove that output from the model, or train a classifier on labels that are numbers",
                )
        return outputs


def open_onnx(model: bytes, what: str, *, optimized: bool = False) -> OnnxRun:
    """Return a function that runs the model as written, on one thread; TvmbuildError with ONNX Runtime's own reason.

    Its integers are summed exactly on every CPU, unless ONNX Runtime cannot do so with an optimised model.
    """
    data = use_exact_integers(model)
    if optimized:
        with suppress(*ORT_ERRORS):  # a model that fails for another reason fails below, too
            return OnnxRun(_open_session(data, optimized=True, exact=True), what)
    with _explained(what, _ON_CPU):
        return OnnxRun(_open_session(data, optimized=optimized), what)


def _open_session(model: bytes, *, optimized: bool, exact: bool = False) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if exact:
        options.add_session_config_entry(*_EXACT)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


_ON_CPU = "the model must run under ONNX Runtime on the CPU: check its opset, operators and input shapes"
_ON_INPUTS = (
    "it loads the model, which fails with these inputs. Random ones may make no sense: a detector finds nothing, or a "
    "number is a shape. State `inputs:` in models.yaml, as `{image: {range: [0, 1]}}` or `{sizes: {value: [2, 8]}}`"
)


@contextmanager
def _explained(what: str, hint: str) -> Iterator[None]:
    try:
        yield
    except ORT_ERRORS as error:
        reason = " ".join(str(error).split())
        raise TvmbuildError(
            f"ONNX Runtime {onnxruntime.__version__} cannot run {what}: {reason}",
            hint,
        ) from error


def make_references(
    model: bytes,
    feeds: Sequence[Mapping[str, np.ndarray]],
    precision: str,
    what: str,
    way: Callable[[Run], Run] = _as_is,
) -> list[Reference]:
    """Return the model's numbers for each of the inputs; for a quantised model with the largest spread of all.

    ``way`` wraps the function that runs the model, for example to run one sample after the other.
    """
    run = way(open_onnx(model, what))
    made = [Reference(feed, run(feed), precision) for feed in feeds]
    if precision != "int8":
        return made
    others = (way(open_onnx(model, what, optimized=True)), way(open_onnx(shake(model), what)))
    spread = max([0.0, *(find_error(other(each.inputs), each.outputs) for each in made for other in others)])
    return [replace(each, spread=spread if math.isfinite(spread) else 0.0) for each in made]


def write_reference(path: Path, reference: Reference) -> None:
    """Publish the .npz: ``input:<name>``, ``output:<name>``, and the other fields. Equal arrays are equal bytes."""
    arrays = {f"input:{name}": value for name, value in reference.inputs.items()}
    arrays |= {f"output:{name}": value for name, value in reference.outputs.items()}
    if reference.specials:
        arrays |= {f"special input:{name}": value for name, value in reference.specials.inputs.items()}
        arrays |= {f"special output:{name}": value for name, value in reference.specials.outputs.items()}
    arrays |= {f"rounding:{name}": value for name, value in reference.rounding.items()}
    if reference.spread:
        arrays[_SPREAD] = np.float64(reference.spread)
    if reference.precision != "fp32":
        arrays[_PRECISION] = np.frombuffer(reference.precision.encode(), np.uint8)
    with publish(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, value in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.ascontiguousarray(value).reshape(value.shape), allow_pickle=False)


def read_reference(path: Path) -> Reference:
    """Read a file of :func:`write_reference`."""
    with np.load(path, allow_pickle=False) as arrays:
        inputs, outputs, given, found, rounding = (
            {name.removeprefix(role): arrays[name] for name in arrays.files if name.startswith(role)}
            for role in ("input:", "output:", "special input:", "special output:", "rounding:")
        )
        precision = arrays[_PRECISION].tobytes().decode() if _PRECISION in arrays.files else "fp32"
        spread = float(arrays[_SPREAD]) if _SPREAD in arrays.files else 0.0
    specials = Reference(given, found, precision) if found else None
    return Reference(inputs, outputs, precision, specials, spread, rounding)


# A quantised model summed in another way, so that the rounding of a sum may decide otherwise.

_ROUNDING = 2.0**-21
"""The relative change of a sum of some hundred float32 products if its order changes."""


_SCALES: Mapping[str, int] = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QGemm"), 4),
    **dict.fromkeys(("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"), 1),
    **dict.fromkeys(("QLinearGlobalAveragePool", "QLinearAveragePool"), 1),
    "DynamicQuantizeMatMul": 2,
    "MatMulIntegerToFloat": 3,
    "DynamicQuantizeLSTM": 8,
}
"""Integer operators → the input with the scale of their weights, or of their first operand.

QLinearAdd may round a sum half-way between two steps either way; ONNX Runtime adds up in another order.
"""


def shake(model: bytes) -> bytes:
    """Return the model with the scales of its weights changed by a rounding error, up and down in turn.

    Integer operators without weights have the scale of one operand changed. A model with neither is returned as it is.
    If data are rounded by their own range, the changed scale is the factor that theirs is multiplied by.
    """
    proto = onnx.load_model_from_string(model)
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    found = {node.output[1] for node in proto.graph.node if node.op_type == "DynamicQuantizeLinear"}
    scales = [name for node in proto.graph.node if (name := _find_scale(node, constants, found))]
    for index, name in enumerate(dict.fromkeys(scales)):
        if name not in constants or constants[name].data_type != TensorProto.FLOAT:
            continue
        tensor, factor = constants[name], np.float32(1 + (_ROUNDING if index % 2 else -_ROUNDING))
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * factor, name))
    shaken: bytes = proto.SerializeToString(deterministic=True)
    return shaken


def _find_scale(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], found: Collection[str]) -> str:
    if node.op_type == "Mul" and any(name in found for name in node.input):
        return next((name for name in node.input if name in constants), "")
    if node.op_type == "DequantizeLinear":
        return str(node.input[1]) if node.input[0] in constants else ""
    return str(node.input[_SCALES[node.op_type]]) if node.op_type in _SCALES else ""
