"""What every library is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvmbuild.package.samples import Samples


@dataclass(frozen=True)
class Work:
    """A float model and the samples by which ranges are found."""

    model: Any
    """An ONNX ModelProto from opset 13 on, every node with a name; it may be changed."""
    samples: Samples
    """The model's inputs, walked through as often as the library likes."""
    excluded: tuple[str, ...]
    """Names of the nodes that stay in floats."""


Quantiser = Callable[[Work], Any]
"""Returns the model in the QDQ form: weights int8 for each channel, activations of 8 bits."""
