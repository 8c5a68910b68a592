"""The losses of a quantised network's operators: what `quantize.json` has and `tvmbuild explain` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OperatorLoss:
    """The ratios of signal to noise of one operator, in dB: 40 dB are an error of 1 %, each 6 dB less double it.

    None: the operator has no such operand, or rounding changes nothing of it.
    """

    node: str
    operator: str
    weight: float | None
    """The weights' ratio; the noise is their rounding."""
    rounding: float | None
    """The activations' ratio; the noise is the rounding in front of this operator, of the least accurate one."""
    whole: float | None
    """The activations' ratio to those of the float model; the noise also has the errors of all operators before."""

    @property
    def worst(self) -> float:
        """The ratio at the operator itself, infinite if it loses nothing."""
        return min((each for each in (self.weight, self.rounding) if each is not None), default=float("inf"))


def read_losses(value: Mapping[str, Any]) -> tuple[OperatorLoss, ...]:
    """Return the losses in the JSON value of `quantize.json`, the worst first; none if the file has none."""
    rows: Sequence[Any] = value.get("losses") or ()
    found = [OperatorLoss(**row) for row in rows]
    return tuple(sorted(found, key=lambda each: (each.worst, each.whole is None, each.whole or 0.0, each.node)))
