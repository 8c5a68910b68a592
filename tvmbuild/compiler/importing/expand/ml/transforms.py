"""The attribute ``post_transform``, which turns sums into scores, as ONNX Runtime applies it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.refusals import refuse

_LEAST = np.float32(1e-7)
"""The largest magnitude that SOFTMAX_ZERO treats as zero."""
_WINITZKI = np.float32(0.147)
"""The constant in Winitzki's approximation of the inverse error function."""


def kind_of(composer: NodeComposer) -> str:
    """Return the node's attribute ``post_transform``, by default NONE."""
    return str(composer.attributes.get("post_transform", "NONE"))


def transform(composer: NodeComposer, scores: str, count: int) -> str:
    """Apply the attribute ``post_transform`` to each row of ``count`` float32 scores.

    ONNX Runtime transforms a row of one score only by PROBIT, whatever the specification says. Raises NodeError for an
    unknown transformation.
    """
    kind = kind_of(composer)
    if kind not in _KINDS:
        raise refuse(composer.node, f"its transformation of scores is {kind}", f"export it with {', '.join(_KINDS)}")
    return _KINDS[kind](composer, scores) if count > 1 or kind == "PROBIT" else scores


def write_pair(composer: NodeComposer, score: str, *, opposite: bool) -> str:
    """Return the scores of both classes, [rows, 2], from the score of one class, [rows, 1], which comes second.

    The other score is the negative score if ``opposite`` is set, else 1 - score. ONNX Runtime transforms the scores
    only by LOGISTIC. Raises NodeError for PROBIT.
    """
    kind = kind_of(composer)
    if kind == "PROBIT":
        raise refuse(
            composer.node,
            "ONNX Runtime leaves one of its two scores undefined, PROBIT of one score",
            "export it with scores of both classes",
        )
    if kind == "LOGISTIC":
        return composer.add("Sigmoid", composer.add("Concat", composer.add("Neg", score), score, axis=1))
    other = composer.add("Neg", score) if opposite else composer.add("Sub", composer.constant(np.float32(1)), score)
    return composer.add("Concat", other, score, axis=1)


def _apply_softmax_zero(composer: NodeComposer, scores: str) -> str:
    """Apply softmax to the scores that are not zero; scores that count as zero are only scaled."""
    largest = composer.reduce("ReduceMax", scores, 1, keep=True)
    powers = composer.add("Exp", composer.add("Sub", scores, largest))
    found = composer.add("Greater", composer.add("Abs", scores), composer.constant(_LEAST))
    share = composer.add("Cast", found, to=TensorProto.FLOAT)
    counted = composer.add("Mul", powers, share)
    small = composer.add("Mul", scores, composer.add("Exp", composer.add("Neg", largest)))
    total = composer.reduce("ReduceSum", counted, 1, keep=True)
    return composer.add("Div", composer.where(found, powers, small), total)


def _apply_probit(composer: NodeComposer, scores: str) -> str:
    """Return sqrt(2) erfinv(2 x - 1) by Winitzki's approximation, as ONNX Runtime computes it."""

    def add(operator: str, left: str, right: str | float) -> str:
        return composer.add(operator, left, right if isinstance(right, str) else composer.constant(np.float32(right)))

    x = add("Sub", add("Mul", scores, 2), 1)
    one = composer.constant(np.float32(1))
    log = composer.add("Log", composer.add("Mul", composer.add("Sub", one, x), composer.add("Add", one, x)))
    middle = add("Add", add("Mul", log, 0.5), 2 / (np.float32(3.14159) * _WINITZKI))
    below = add("Mul", log, 1 / _WINITZKI)
    root = composer.add("Sqrt", composer.add("Sub", composer.add("Mul", middle, middle), below))
    size = composer.add("Sqrt", composer.add("Sub", root, middle))
    negative = composer.add("Cast", add("Less", x, 0), to=TensorProto.FLOAT)
    signed = composer.add("Mul", size, add("Add", add("Mul", negative, -2), 1))
    return add("Mul", signed, 1.41421356)


_KINDS: Mapping[str, Callable[[NodeComposer, str], str]] = {
    "NONE": lambda _, scores: scores,
    "LOGISTIC": lambda composer, scores: composer.add("Sigmoid", scores),
    "SOFTMAX": lambda composer, scores: composer.add("Softmax", scores, axis=1),
    "SOFTMAX_ZERO": _apply_softmax_zero,
    "PROBIT": _apply_probit,
}
