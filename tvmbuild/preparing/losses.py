"""The errors that quantisation makes at each operator, by ONNX Runtime's `qdq_loss_debug`.

ONNX Runtime matches tensors by the names of its own quantiser. Here nodes are matched by name, which all quantisers
keep, and its functions compute the ratios of the matched tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tvmbuild.base.operator_losses import OperatorLoss
from tvmbuild.preparing.keep.errors import Arrays
from tvmbuild.preparing.keep.groups import MOVERS, find_dequantised, find_shapes
from tvmbuild.preparing.onnx_graph import with_outputs
from tvmbuild.preparing.reference import open_onnx, run_onnx

MOST_BYTES = 256 << 20
"""The size of the activations of one sample that are compared at a time; the samples are a few."""


@dataclass(frozen=True)
class _Activation:
    """An activation that is rounded: its names in the QDQ model before and after rounding, and in the float model."""

    before: str
    after: str
    original: str
    factor: np.ndarray | None
    """The factor by which the quantiser has smoothed the float model's activation."""
    bounds: tuple[float, float] | None
    """The bounds of a Relu or Clip that the quantiser left out, because the rounded range has the same."""


@dataclass
class _Operands:
    """The rounded operands of a node."""

    node: Any
    weights: list[tuple[str, np.ndarray]] = field(default_factory=list)
    """The dequantised tensor's name, and the float model's values."""
    activations: list[_Activation] = field(default_factory=list)


@dataclass(frozen=True)
class _Ratios:
    """The signal-to-noise ratios of a rounded activation in dB, None without noise."""

    rounding: float | None
    """The ratio to the activation's own rounding error."""
    whole: float | None
    """The ratio to the difference from the float model."""


def measure_losses(quantised: Any, original: Any, samples: Sequence[Arrays]) -> tuple[OperatorLoss, ...]:
    """Return the losses of the QDQ model's operators with rounded operands, in the order of the graph.

    ``original`` is the float model, with the same names of nodes.
    """
    found = _Matcher(quantised, original).match()
    weights = _measure_weights(quantised, found)
    activations: dict[str, _Ratios] = {}
    for part in _divide({each.after: each for operands in found for each in operands.activations}, original):
        activations |= _measure_activations(quantised, original, part, samples)
    return tuple(_describe(each, weights, activations) for each in found)


def _describe(operands: _Operands, weights: Mapping[str, float], activations: Mapping[str, _Ratios]) -> OperatorLoss:
    of_activations = [activations[each.after] for each in operands.activations]
    return OperatorLoss(
        operands.node.name,
        operands.node.op_type,
        min((weights[name] for name, _ in operands.weights if name in weights), default=None),
        min((each.rounding for each in of_activations if each.rounding is not None), default=None),
        min((each.whole for each in of_activations if each.whole is not None), default=None),
    )


class _Matcher:
    """The search for the tensors that a QDQ model rounds and their originals."""

    def __init__(self, quantised: Any, original: Any) -> None:
        self._quantised, self._original = quantised, original
        self._makers, self._floats = (
            {name: node for node in proto.graph.node for name in node.output} for proto in (quantised, original)
        )
        self._twins = {node.name: node for node in original.graph.node}
        self._constants, self._values = (
            {tensor.name: tensor for tensor in proto.graph.initializer} for proto in (quantised, original)
        )
        self._names = {node.name for node in quantised.graph.node}
        self._values |= {
            node.output[0]: node.attribute[0].t
            for node in original.graph.node
            if node.op_type == "Constant" and node.attribute[0].name == "value"
        }

    def match(self) -> list[_Operands]:
        computing = find_dequantised(self._quantised)
        nodes = [node for node in self._quantised.graph.node if node.name in computing and node.name in self._twins]
        return [self._list_operands(node, self._twins[node.name]) for node in nodes]

    def _list_operands(self, node: Any, twin: Any) -> _Operands:
        found = _Operands(node)
        for name, wanted in zip(node.input, twin.input, strict=False):
            self._follow(found, name, wanted)
        factor = next((each.factor for each in found.activations if each.factor is not None), None)
        if factor is not None:
            # A weight that is moved first is left out: its axes are others.
            places = {name: place for place, name in enumerate(node.input)}
            found.weights = [
                (name, _smooth(values, node, places[name], factor)) for name, values in found.weights if name in places
            ]
        return found

    def _follow(self, found: _Operands, name: str, wanted: str) -> None:
        """Add a rounded operand. Operators that only move numbers are passed in both models alike."""
        maker, twin = self._makers.get(name), self._floats.get(wanted)
        if maker is None:
            return
        if maker.op_type in MOVERS and twin is not None and twin.name == maker.name:
            moved = len(maker.input) if maker.op_type == "Concat" else 1
            for each, other in zip(maker.input[:moved], twin.input[:moved], strict=True):
                self._follow(found, each, other)
            return
        if maker.op_type != "DequantizeLinear":
            return
        rounder = self._makers.get(maker.input[0])
        before = maker.input[0] if rounder is None else rounder.input[0]
        if before in self._constants:
            if wanted in self._values:
                found.weights.append((name, numpy_helper.to_array(self._values[wanted])))
        elif rounder is not None:
            factor, bounds = self._find_factor(before, wanted), self._find_bounds(twin)
            found.activations.append(_Activation(before, name, wanted, factor, bounds))

    def _find_factor(self, before: str, wanted: str) -> np.ndarray | None:
        """Return the constant by which the quantiser multiplies an activation before it rounds it."""
        maker = self._makers.get(before)
        if maker is None or maker.op_type != "Mul" or maker.name in self._twins or before == wanted:
            return None
        constants = [self._constants[each] for each in maker.input if each in self._constants]
        return numpy_helper.to_array(constants[0]) if constants else None

    def _find_bounds(self, maker: Any) -> tuple[float, float] | None:
        """Return the bounds of a float model's operator that the QDQ model lacks."""
        if maker is None or maker.name in self._names or maker.op_type not in {"Clip", "Relu"}:
            return None
        if maker.op_type == "Relu":
            return 0.0, math.inf
        low, high = (*maker.input[1:], "", "")[:2]
        ends = ((low, -math.inf), (high, math.inf))
        given = (
            float(numpy_helper.to_array(self._values[name])) if name in self._values else end for name, end in ends
        )
        first, last = given
        return first, last


def _smooth(values: np.ndarray, node: Any, place: int, factor: np.ndarray) -> np.ndarray:
    """Return the operand at a ``place`` of a matrix product whose other operand is multiplied by ``factor``.

    It is divided along the axis that the product sums. A bias stays.
    """
    if place > 1:
        return values
    is_turned = any(each.name == ("transA", "transB")[place] and each.i for each in node.attribute)
    axis = -1 if values.ndim == 1 or (place == 1) == is_turned else -2
    shape = [1] * values.ndim
    shape[axis] = factor.size
    smoothed: np.ndarray = values / factor.reshape(shape)
    return smoothed


def _measure_weights(quantised: Any, found: Sequence[_Operands]) -> dict[str, float]:
    """Return name → ratio of weights and biases to their rounding errors. Those without an error are left out."""
    if not any(each.weights for each in found):
        return {}
    names = dict.fromkeys(name for each in found for name, _ in each.weights)
    constant = onnx.utils.Extractor(with_outputs(quantised, names)).extract_model([], list(names))
    rounded = run_onnx(constant.SerializeToString(), {}, "the quantised weights")
    matched = [(name, values) for each in found for name, values in each.weights if values.shape == rounded[name].shape]
    ratios = {name: _find_ratio([values], [rounded[name]]) for name, values in matched}
    return {name: ratio for name, ratio in ratios.items() if ratio is not None}


def _measure_activations(
    quantised: Any, original: Any, found: Sequence[_Activation], samples: Sequence[Arrays]
) -> dict[str, _Ratios]:
    """Return activation (its name after rounding) → signal-to-noise ratio for its rounding, and for all errors."""
    inputs = {value.name for value in original.graph.input}
    ours = dict.fromkeys(name for each in found for name in (each.before, each.after) if name not in inputs)
    theirs = dict.fromkeys(each.original for each in found if each.original not in inputs)
    run = open_onnx(with_outputs(quantised, ours).SerializeToString(), "the quantised model")
    run_float = open_onnx(with_outputs(original, theirs).SerializeToString(), "the float model") if theirs else None
    matched: dict[str, tuple[list[np.ndarray], ...]] = {each.after: ([], [], []) for each in found}
    for sample in samples:
        got = {**sample, **run(sample)}
        wanted = {**sample, **(run_float(sample) if run_float else {})}
        for each in found:
            before = got[each.before] if each.bounds is None else np.clip(got[each.before], *each.bounds)
            whole = wanted[each.original] if each.factor is None else wanted[each.original] * each.factor
            for values, more in zip(matched[each.after], (before, got[each.after], whole), strict=True):
                values.append(more.ravel())
    return {
        name: _Ratios(_find_ratio(before, rounded), _find_ratio(whole, rounded))
        for name, (before, rounded, whole) in matched.items()
    }


def _find_ratio(signal: Sequence[np.ndarray], noisy: Sequence[np.ndarray]) -> float | None:
    """Return the ratio of signal to noise in dB, None without noise, and if it is not finite.

    ONNX Runtime gives 0 dB for equal zeros.
    """
    from onnxruntime.quantization import qdq_loss_debug  # noqa: PLC0415 - slow to import

    if all(map(np.array_equal, signal, noisy)):
        return None
    ratio = qdq_loss_debug.compute_signal_to_quantization_noice_ratio(signal, noisy)
    return round(ratio, 1) if math.isfinite(ratio) else None


def _divide(found: Mapping[str, _Activation], original: Any) -> Iterator[list[_Activation]]:
    """Yield the activations in parts of at most `MOST_BYTES`, or of one."""
    shapes = find_shapes(original)
    part, size = list[_Activation](), 0
    for each in found.values():
        own = 3 * 4 * math.prod(shapes.get(each.original, ()))
        if part and size + own > MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(each)
        size += own
    if part:
        yield part
