"""The classes of a classifier, whose labels are numbers, or strings that nothing reads."""

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
    """The numeric labels, or None if nothing reads the labels."""


def find_labels(composer: NodeComposer, attribute: str) -> Labels:
    """Return the classes of a classifier; the attribute named ``attribute`` has their numeric labels.

    Raises NodeError if the labels are strings and something reads them.
    """
    texts, numbers = (composer.attributes.get(name, []) for name in ("classlabels_strings", attribute))
    if not composer.output(0) or not composer.scope.is_read(composer.output(0)):
        return Labels(len(texts or numbers), None)
    if texts:
        raise NodeError(composer.node, LABELS_OF_TEXTS)
    return Labels(len(numbers), numbers)


def write_labels(composer: NodeComposer, places: str, numbers: Sequence[int] | None) -> None:
    """Write the label of each row to the node's first output; ``places`` are the rows' positions among the classes."""
    if numbers is not None:
        known = composer.constant(np.array(numbers, np.int64))
        composer.name(composer.add("Gather", known, places, axis=0), composer.output(0))


def find_above(composer: NodeComposer, values: str, bound: float, *, or_equal: bool = False) -> str:
    """Return 1 for each row whose only value is above the bound (or equal to it, with ``or_equal``), else 0."""
    limit = composer.constant(np.array(bound, np.float32))
    above = (
        composer.add("Not", composer.add("Less", values, limit)) if or_equal else composer.add("Greater", values, limit)
    )
    return composer.reshape(composer.add("Cast", above, to=TensorProto.INT64), -1)
