"""The module attribute that lists the convolutions with a choice of algorithm.

`apply_winograd` writes the attribute; `pad_conv_channels`, which replaces weights of the convolutions, updates it.
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
    """Return the module with ``choices`` as its attribute; return it unchanged if there are no choices.

    No attribute of a function survives fusing. The weights therefore identify the function that computes a convolution.
    """
    return mod.with_attr(CHOICES, choices) if choices else mod


def read_choices(mod: tvm.ir.IRModule) -> Sequence[Choice]:
    """Return (shape, channels, padding, weights) of each convolution with a choice of algorithm."""
    return (mod.attrs or {}).get(CHOICES) or ()
