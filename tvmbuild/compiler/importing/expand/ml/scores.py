"""From sums of weights to scores and classes, as ONNX Runtime has it: the specification leaves much open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.refusals import refuse

_HALF = 0.5


@dataclass(frozen=True)
class Scores:
    """What a classifier's sums mean."""

    base: np.ndarray
    labels: Sequence[int] | None
    """None: nobody asks for them."""
    ids: tuple[int, ...]
    """The classes that have weights."""
    is_positive: bool
    """Whether no weight is negative."""

    @property
    def is_single(self) -> bool:
        """Whether there are two classes, of which one has weights."""
        return self.ids in {(0,), (1,)}


def write_scores(composer: NodeComposer, sums: str, base: np.ndarray, output: str) -> None:
    """Add what there is before anything is added up, and transform."""
    composer.name(transform(composer, _add_base(composer, sums, base)), output)


def write_classes(composer: NodeComposer, sums: str, scores: Scores) -> None:
    """Name the class of each row and its scores."""
    two = scores.is_single or scores.ids == (0, 1)
    if two and scores.base.size > 1:
        raise refuse(composer.node, "it has two base values for two classes", "export it with one, or with none")
    if scores.ids == (0,):
        _write_two(composer, sums, scores)
        return
    if not two:
        total = _add_base(composer, sums, scores.base)
        _write_labels(composer, composer.add("ArgMax", total, axis=1, keepdims=0), scores.labels)
        composer.name(transform(composer, total), composer.output(1))
        return
    second = composer.split(sums, 1, [1, 1])[1]
    chosen = _exceeds(composer, second, _HALF if scores.is_single and scores.is_positive else 0.0)
    # ONNX Runtime says 0 or 1 where both have weights, whatever they are called.
    _write_labels(composer, chosen, scores.labels if scores.is_single else (0, 1))
    base = [] if scores.is_single or not scores.base.size else [scores.base[0], 0]
    composer.name(transform(composer, _add_base(composer, sums, np.array(base, np.float32))), composer.output(1))


def transform(composer: NodeComposer, scores: str) -> str:
    """Apply the attribute ``post_transform`` to each row."""
    kind = composer.attributes.get("post_transform", "NONE")
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return composer.add("Sigmoid", scores)
    if kind == "SOFTMAX":
        return composer.add("Softmax", scores, axis=1)
    raise refuse(composer.node, f"its transformation of scores is {kind}", "export it with NONE, SOFTMAX or LOGISTIC")


def _write_two(composer: NodeComposer, sums: str, scores: Scores) -> None:
    """Compute both scores of the one that there is."""
    only = _add_base(composer, composer.split(sums, 1, [1, 1])[0], scores.base)
    chosen = _exceeds(composer, only, _HALF if scores.is_positive else 0.0)
    _write_labels(composer, chosen, scores.labels)
    if composer.attributes.get("post_transform", "NONE") == "LOGISTIC":
        both = composer.add("Sigmoid", composer.add("Concat", composer.add("Neg", only), only, axis=1))
    elif scores.is_positive:
        other = composer.add("Sub", composer.constant(np.array(1, np.float32)), only)
        both = composer.add("Concat", other, only, axis=1)
    else:
        both = composer.add("Concat", composer.add("Neg", only), only, axis=1)
    composer.name(both, composer.output(1))


def _exceeds(composer: NodeComposer, values: str, bound: float) -> str:
    """Return 1 for each row above the bound, else 0."""
    above = composer.add("Greater", values, composer.constant(np.array(bound, np.float32)))
    return composer.reshape(composer.add("Cast", above, to=TensorProto.INT64), -1)


def _write_labels(composer: NodeComposer, places: str, labels: Sequence[int] | None) -> None:
    if labels is not None and composer.output(0):
        known = composer.constant(np.array(labels, np.int64))
        composer.name(composer.add("Gather", known, places, axis=0), composer.output(0))


def _add_base(composer: NodeComposer, sums: str, base: np.ndarray) -> str:
    return composer.add("Add", sums, composer.constant(base)) if base.size else sums
