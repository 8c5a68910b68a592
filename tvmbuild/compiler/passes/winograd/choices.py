"""The module's attribute of the convolutions that have a choice of algorithm.

`apply_winograd` writes it; `pad_conv_channels`, which replaces their weights, keeps it true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

CHOICES = "tvmbuild_convolutions"
"""The attribute's name."""
Choice = Sequence[Any]
"""Of one of them: shape, channels, padding, weights."""


def keep_choices(mod: tvm.ir.IRModule, choices: Sequence[Choice]) -> tvm.ir.IRModule:
    """Return the module with the attribute; without any choices, as it is.

    Functions have no attribute that fusing keeps: that a function computes one of them is seen by its weights.
    """
    return mod.with_attr(CHOICES, choices) if choices else mod


def read_choices(mod: tvm.ir.IRModule) -> Sequence[Choice]:
    """Return (shape, channels, padding, weights) of each of them."""
    return (mod.attrs or {}).get(CHOICES) or ()
