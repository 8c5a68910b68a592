"""Scores and classes from sums of weights, as ONNX Runtime computes them: the specification leaves much open."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tvmbuild.compiler.importing.expand.ml.labels import Labels, find_above, write_labels
from tvmbuild.compiler.importing.expand.ml.transforms import transform, write_pair
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer

_HALF = 0.5
_TWO = 2


@dataclass(frozen=True)
class Sums:
    """The sums of the trees' weights for each row and each target or class, [rows, count]."""

    value: str
    count: int
    base: np.ndarray
    """The base values that are added to the sums; empty if there are none."""
    found: str | None = None
    """The name of the condition that a leaf of the row has a weight for the sum, or None if one always has."""


@dataclass(frozen=True)
class Classes:
    """The classes of a classifier, and the properties that decide what its sums mean."""

    labels: Labels
    ids: tuple[int, ...]
    """The indices of the classes that have weights."""
    is_positive: bool
    """True if no weight is negative."""

    @property
    def is_single(self) -> bool:
        """Return whether there are two classes and only one of them has weights."""
        return self.labels.count == _TWO and self.ids in {(0,), (1,)}


def finish(composer: NodeComposer, sums: Sums) -> str:
    """Add the base and apply ``post_transform``; a sum without a weight of any leaf is 0 and gets no base."""
    total = _add_base(composer, sums.value, sums.base)
    if sums.found is not None and sums.base.size:
        total = composer.where(sums.found, total, composer.constant(np.zeros((1, 1), np.float32)))
    return transform(composer, total, sums.count)


def write_classes(composer: NodeComposer, sums: Sums, classes: Classes) -> None:
    """Write the class and the scores of each row to the node's outputs."""
    if sums.count == _TWO:
        _write_two(composer, sums, classes)
        return
    total = _add_base(composer, sums.value, sums.base)
    compared = total
    if sums.found is not None and not sums.base.size:
        least = composer.constant(np.full((1, 1), np.finfo(np.float32).min, np.float32))
        compared = composer.where(sums.found, total, least)
    write_labels(composer, composer.add("ArgMax", compared, axis=1, keepdims=0), classes.labels.numbers)
    composer.name(finish(composer, replace(sums, found=None)), composer.output(1))


def _write_two(composer: NodeComposer, sums: Sums, classes: Classes) -> None:
    first, second = composer.split(sums.value, 1, [1, 1])
    base, bound = sums.base, _HALF if classes.is_single and classes.is_positive else 0.0
    if base.size == _TWO:
        decides, scores = _add_two_bases(composer, (first, second), classes.ids, base)
    elif classes.ids == (0,):
        decides = _add_base(composer, first, base)
        scores = write_pair(composer, decides, opposite=not classes.is_positive)
    else:
        decides = second
        # A class without weights gets no base.
        added = np.array([] if classes.is_single or not base.size else [base[0], 0], np.float32)
        scores = transform(composer, _add_base(composer, sums.value, added), _TWO)
    # ONNX Runtime returns 0 or 1 if both classes have weights, whatever their labels.
    numbers = classes.labels.numbers
    named = numbers if classes.is_single or numbers is None else (0, 1)
    write_labels(composer, find_above(composer, decides, bound), named)
    composer.name(scores, composer.output(1))


def _add_two_bases(
    composer: NodeComposer, sums: tuple[str, str], ids: tuple[int, ...], base: np.ndarray
) -> tuple[str, str]:
    """Return the values that decide on the class, and the scores of both classes.

    If the second class has weights, ONNX Runtime adds its base to the first class's sum and uses the result for both
    classes, with signs. If the second class has no weights, it gets no base.
    """
    if ids == (0,):
        decides = _add_base(composer, sums[0], base[:1])
        return decides, transform(composer, composer.concat([decides, sums[1]], 1), _TWO)
    decides = _add_base(composer, sums[0], base[1:])
    sign = composer.constant(np.float32(-1 if ids == (0, 1) else 0))
    other = composer.add("Mul", decides, sign)
    return decides, transform(composer, composer.concat([other, decides], 1), _TWO)


def _add_base(composer: NodeComposer, sums: str, base: np.ndarray) -> str:
    return composer.add("Add", sums, composer.constant(base)) if base.size else sums
