"""What a schedule needs of tensor intrinsics: their names, the tiles' depth, and where tiles are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SIDE = 16
"""Rows and columns of a tile of the output."""
Scopes = tuple[str, str, str]
"""Of tiles of the left operand, of the right one, and of sums."""
Steps = dict[str, tuple[Any, Any]]
"""What each does, as loops that TVM looks for, and as it is written; by the names below."""


@dataclass(frozen=True)
class Intrinsics:
    """Of one type of operands."""

    load_left: str
    load_right: str
    multiply: str
    multiply_turned: str
    """The same where the right operand is written first, as convolutions have it."""
    fill: str
    store: str
    depth: int
    """Of a tile of the operands."""
    scopes: Scopes
