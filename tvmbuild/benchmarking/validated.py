"""The checked numbers of a package whose device is not here. No TVM, because the report reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvmbuild.benchmarking.agreement import Agreement, read_agreement

FORMAT = 1
_TEXTS = ("device", "note", "unjudged", "frames")
"""The optional fields with a text."""


@dataclass(frozen=True)
class Validated:
    """The errors of a model's correct outputs against its reference."""

    max_abs_error: float
    max_rel_error: float
    device: str | None = None
    """The class of the device that ran the package. None: the CPU computed the model."""
    note: str | None = None
    """The reason why no device ran it although one exists."""
    accuracy: Agreement | None = None
    """None: the model names no real inputs."""
    unjudged: str | None = None
    """The outputs with elements that rounding moves so far that their numbers prove nothing; None if none has."""
    frames: str | None = None
    """The comparison of the package's frames and results. None: it has neither, or no device ran it."""

    def to_json(self) -> dict[str, object]:
        """Return the value of `validated.json`."""
        told = {name: value for name in _TEXTS if (value := getattr(self, name)) is not None}
        judged = {} if self.accuracy is None else {"accuracy": self.accuracy.to_json()}
        errors = {"max_abs_error": self.max_abs_error, "max_rel_error": self.max_rel_error}
        return {"format": FORMAT, **errors, **told, **judged}

    @classmethod
    def from_json(cls, value: object) -> Validated | None:
        """Read the value of `to_json`. None: another value."""
        if not isinstance(value, Mapping) or value.get("format") != FORMAT:
            return None
        absolute, relative = value.get("max_abs_error"), value.get("max_rel_error")
        if not isinstance(absolute, float) or not isinstance(relative, float):
            return None
        device, note, unjudged, frames = (text if isinstance(text := value.get(name), str) else None for name in _TEXTS)
        try:
            accuracy = read_agreement(value["accuracy"]) if "accuracy" in value else None
        except (KeyError, TypeError):
            return None
        return cls(absolute, relative, device, note, accuracy, unjudged, frames)

    def describe(self) -> str:
        """Return the place where the numbers were checked."""
        left = "" if self.frames is None else f", frames too: {self.frames}"
        left += "" if self.unjudged is None else f", but for {self.unjudged}, which rounding alone changes"
        if self.device is not None:
            return f"numbers checked on {self.device}{left}"
        return f"numbers checked on the CPU{left}" + ("" if self.note is None else f", for {self.note}")


def join_sizes(results: Sequence[Validated]) -> Validated:
    """Return the result for all sizes of a model: the largest errors, and the rest of the largest size, the last."""
    unjudged = "; ".join(dict.fromkeys(each.unjudged for each in results if each.unjudged is not None))
    return replace(
        results[-1],
        max_abs_error=max(each.max_abs_error for each in results),
        max_rel_error=max(each.max_rel_error for each in results),
        unjudged=unjudged or None,
    )
