"""The classes of a classifier: numbers, or texts that nothing reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.refusals import LABELS_OF_TEXTS, NodeError


@dataclass(frozen=True)
class Labels:
    """The number of classes, and their labels."""

    count: int
    numbers: Sequence[int] | None
    """The numeric labels; None if nothing reads them."""


def find_labels(composer: NodeComposer, attribute: str) -> Labels:
    """Return the classes, whose numbers are in ``attribute``; raise NodeError for texts that are read."""
    texts, numbers = (composer.attributes.get(name, []) for name in ("classlabels_strings", attribute))
    if not composer.output(0) or not composer.scope.is_read(composer.output(0)):
        return Labels(len(texts or numbers), None)
    if texts:
        raise NodeError(composer.node, LABELS_OF_TEXTS)
    return Labels(len(numbers), numbers)


def write_labels(composer: NodeComposer, places: str, numbers: Sequence[int] | None) -> None:
    """Name the class of each row by its position among the classes."""
    if numbers is not None:
        known = composer.constant(np.array(numbers, np.int64))
        composer.name(composer.add("Gather", known, places, axis=0), composer.output(0))


def find_above(composer: NodeComposer, values: str, bound: float, *, or_equal: bool = False) -> str:
    """Return 1 for each row whose one value is above the bound, else 0."""
    limit = composer.constant(np.array(bound, np.float32))
    above = (
        composer.add("Not", composer.add("Less", values, limit)) if or_equal else composer.add("Greater", values, limit)
    )
    return composer.reshape(composer.add("Cast", above, to=TensorProto.INT64), -1)
