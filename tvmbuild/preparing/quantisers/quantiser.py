"""The interface of every quantisation library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvmbuild.package.samples import Samples
from tvmbuild.preparing.keep.control import Control


@dataclass(frozen=True)
class Work:
    """A float model, and the samples that determine its ranges."""

    model: Any
    """An ONNX ModelProto from opset 13 on, every node with a name; it may be changed."""
    samples: Samples
    """The model's inputs, walked through as often as the library likes."""
    excluded: tuple[str, ...]
    """The names of the nodes that stay in floats."""
    control: Control | None = None
    """The accuracy that the library is to keep, or None if it quantises all it can."""


Quantiser = Callable[[Work], Any]
"""A function that returns the model in the QDQ form: int8 weights for each channel, activations of 8 bits."""
