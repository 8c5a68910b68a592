"""The subject of a step: a model, or a cell (a model on a target)."""

from __future__ import annotations

from dataclasses import dataclass

from tvmbuild.base.attributes import ROUNDED
from tvmbuild.base.specs import ModelSpec, TargetSpec


@dataclass(frozen=True)
class Subject:
    """The subject of a step. ``target`` is None for the stages of a model."""

    model: ModelSpec
    target: TargetSpec | None = None

    @property
    def name(self) -> str:
        """The name of the model, or `model@target` for a cell."""
        return self.model.name if self.target is None else f"{self.model.name}@{self.target.name}"

    @property
    def is_quantised(self) -> bool:
        """Return whether the cell is built from the output of quantize:M."""
        return self.target is not None and self.target.precision == "int8" and self.model.quantize is not None

    @property
    def keeps(self) -> bool:
        """Return whether the cell's precision is fp16, bf16 or tf32 and its model has `keep:`."""
        return self.target is not None and self.target.precision in ROUNDED and self.model.keep is not None

    def require_target(self) -> TargetSpec:
        """Return the cell's target. Raises ValueError if the subject is only a model."""
        if self.target is None:
            raise ValueError(f"{self.name} is not a cell")
        return self.target
