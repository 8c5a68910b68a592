"""The attributes of a target, and the precision of its computations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tvmbuild.base.frozen_map import FrozenMap

Scalar = str | int | float | bool
AttributeValue = Scalar | tuple[Scalar, ...]
Attributes = FrozenMap[str, AttributeValue]
"""The attributes of a target in TVM's spelling, sorted by name: mcpu, mattr, mtriple, num-cores, arch …"""


def freeze_attributes(data: Mapping[str, Any]) -> Attributes:
    """Return the attributes of a JSON or YAML map, sorted by name, with tuples for lists."""
    return FrozenMap(sorted((name, tuple(each) if isinstance(each, list) else each) for name, each in data.items()))


Precision = Literal["fp32", "tf32", "fp16", "bf16", "int8"]
"""The precision in which a target computes float32 models.

`int8` is for models that are quantised, by their author or by ``quantize``.
"""
ROUNDED: frozenset[Precision] = frozenset({"tf32", "fp16", "bf16"})
"""The precisions of shorter floats, in which single operators may stay in float32."""
