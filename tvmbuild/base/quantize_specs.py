"""The options `quantize:` of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tvmbuild.base.field_marks import NOT_FINGERPRINTED, OMIT_WHEN_DEFAULT


@dataclass(frozen=True)
class Calibration:
    """Real inputs, as in Accuracy, that determine the ranges of activations."""

    kind: Literal["images", "inputs"]
    paths: tuple[str, ...] = field(metadata=NOT_FINGERPRINTED)
    """The files that are used: at most ``count`` pictures, or one .npz.

    The fingerprint has the step's inputs instead.
    """
    count: int = 64
    """The largest number of samples. They are taken evenly from all samples."""


@dataclass(frozen=True)
class Quantize:
    """The quantisation of a model for the targets of the precision int8."""

    calibration: Calibration
    method: Literal["nncf", "onnxruntime"] = "nncf"
    exclude: tuple[str, ...] = ()
    """Globs of node names, and operator types, that stay in floating point."""
    keep: Literal["auto"] | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """`auto` searches for further operators that stay in floating point, until the model's accuracy is kept."""
    accuracy_control: bool = field(default=False, metadata=OMIT_WHEN_DEFAULT)
    """True if NNCF returns operators to floats, one after the other, until the model's accuracy is kept."""
