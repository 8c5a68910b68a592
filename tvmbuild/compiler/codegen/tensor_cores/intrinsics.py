"""Tensor intrinsics as a schedule needs them: their names, the tiles' depth, and the tiles' scopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SIDE = 16
"""The number of rows and of columns of an output tile."""
Scopes = tuple[str, str, str]
"""The scopes of tiles of the left operand, of the right operand, and of sums."""
Steps = dict[str, tuple[Any, Any]]
"""The steps by the names below: the loops that TVM looks for, and the code that replaces them."""


@dataclass(frozen=True)
class Intrinsics:
    """The intrinsics for one type of operands."""

    load_left: str
    load_right: str
    multiply: str
    multiply_turned: str
    """The same product with the right operand written first, as convolutions have it."""
    fill: str
    store: str
    depth: int
    """The depth of an operand's tile."""
    scopes: Scopes
