"""The names of tensor intrinsics that a schedule needs, with the depth and the memory scopes of their tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SIDE = 16
"""The number of rows, and of columns, of an output tile."""
Scopes = tuple[str, str, str]
"""The memory scopes of three kinds of tiles: the left operand, the right operand, and the sums."""
Steps = dict[str, tuple[Any, Any]]
"""The loops that TVM looks for and the code that replaces them, by the field of `Intrinsics` that names the step."""


@dataclass(frozen=True)
class Intrinsics:
    """The names of the tensor intrinsics for one type of operands, and the properties of their tiles."""

    load_left: str
    load_right: str
    multiply: str
    multiply_turned: str
    """The intrinsic of the same product for a function that writes the right operand first, as convolutions do."""
    fill: str
    store: str
    depth: int
    """The number of columns of the left operand's tile, and of rows of the right operand's tile."""
    scopes: Scopes
    operand_scope: str
    """The scope of the operands' copies in shared memory."""
