"""The module's attribute that lists the convolutions with a choice of algorithm.

`apply_winograd` writes it; `pad_conv_channels`, which replaces their weights, updates it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

CHOICES = "tvmbuild_convolutions"
"""The name of the attribute."""
Choice = Sequence[Any]
"""One convolution: shape, channels, padding, weights."""


def keep_choices(mod: tvm.ir.IRModule, choices: Sequence[Choice]) -> tvm.ir.IRModule:
    """Return the module with the attribute; a module without choices is returned as it is.

    Functions have no attribute that survives fusing: the weights identify the function that computes a convolution.
    """
    return mod.with_attr(CHOICES, choices) if choices else mod


def read_choices(mod: tvm.ir.IRModule) -> Sequence[Choice]:
    """Return (shape, channels, padding, weights) of each convolution."""
    return (mod.attrs or {}).get(CHOICES) or ()
