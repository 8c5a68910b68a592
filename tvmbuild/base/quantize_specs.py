"""What `quantize:` of a model says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tvmbuild.base.field_marks import NOT_FINGERPRINTED


@dataclass(frozen=True)
class Calibration:
    """Real inputs by which the ranges of activations are found: as those of Accuracy."""

    kind: Literal["images", "inputs"]
    paths: tuple[str, ...] = field(metadata=NOT_FINGERPRINTED)
    """Of more than ``count`` pictures those that are taken; the step's inputs tell them."""
    count: int = 64
    """At most so many samples, taken evenly."""


@dataclass(frozen=True)
class Quantize:
    """How a model is quantised for the targets of the precision int8."""

    calibration: Calibration
    method: Literal["nncf", "onnxruntime"] = "nncf"
    exclude: tuple[str, ...] = ()
    """Globs of nodes' names, and types of operators, that stay in floats."""
