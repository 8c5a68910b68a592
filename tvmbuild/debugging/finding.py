"""The result of a search for a wrong place, and the request for it. This module imports no slow module."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.specs import Tolerance
from tvmbuild.package.metadata import PackageTarget

PLACES = "places.json"
"""The file with a finding and the table of all places. ``places.html`` draws them."""
REDUCED = "reduced.onnx"
"""The file with the smallest model that fails. ``reduced.npz`` has its inputs and the right outputs."""

IN_FLOAT32_THERE = "in float32 there alone"
"""The variant that `keep:` of a model makes permanent."""


@dataclass(frozen=True)
class Request:
    """A cell whose numbers are to be examined."""

    cell: str
    model: Path
    """The ONNX file from which the package is built."""
    package: Path
    schedule: Path | None
    """The cell's Schedule, or None for a package without its project: rules schedule everything."""
    reference: Path
    target: PackageTarget
    tolerance: Tolerance
    folder: Path
    """The folder for the smallest model that fails, and for the table of places, as an absolute path."""
    device: DeviceSpec | None = None
    """The device that runs packages, or None if this CPU computes them in place of the target."""
    threads: int = 1
    link: str = "auto"
    inputs: Path | None = None
    """An .npz with other inputs than the reference's, by name."""
    every: bool = False
    """True if the table of all places is made."""
    reduce: bool = False
    """True if the smallest model that fails is written."""
    remark: str | None = None
    """A remark about the request, which stands below the finding."""


@dataclass(frozen=True)
class PlaceError:
    """The error of a place. Errors are shares of the largest magnitude."""

    node: str
    """The node's name, or the name of its first output if it has none."""
    operator: str
    place: str
    """The name of the output."""
    error: float
    rounding: float
    """The error that rounding alone causes."""

    @property
    def ratio(self) -> float:
        """Return the error over the one of rounding."""
        return rate(self.error, self.rounding)


def rate(error: float, rounding: float) -> float:
    """Return the error over the one of rounding; 0 if rounding decides on the shape, so that no error is wrong."""
    return 0.0 if math.isinf(rounding) else error / rounding


@dataclass(frozen=True)
class TaskFacts:
    """A Task that a wrong model has, and a right one has not."""

    key: str
    name: str
    recorded: bool
    """True if a record schedules it; else a rule does."""
    rule: str = ""
    """The rule that schedules it, or empty if a record does, or if no rule does."""


@dataclass(frozen=True)
class Tried:
    """A variant of the build, and its error at the wrong place."""

    variant: str
    ratio: float | None
    """None if it cannot be built."""
    fixes: bool


@dataclass(frozen=True)
class Suspect:
    """The first wrong place, and the facts about the code that computes it."""

    place: PlaceError
    nodes: tuple[str, ...]
    """The names of the nodes that stay in float32 in `IN_FLOAT32_THERE`."""
    inputs: tuple[PlaceError, ...]
    """The places that the node reads."""
    alone: float | None
    """The ratio of the node alone with the original's inputs. None if it cannot be built by itself."""
    fused: tuple[str, ...]
    """The other nodes that are computed by the same kernel: each with its operator."""
    range: tuple[str, ...]
    """Earlier nodes that may be at fault instead, because no model that ends at one of them can be built."""
    tasks: tuple[TaskFacts, ...]
    layout: str
    precision: str
    tried: tuple[Tried, ...]
    remedy: str | None
    """The variant with which the whole package passes the gate."""
    reduced: int
    """The number of nodes of the smallest model that fails."""


@dataclass(frozen=True)
class Finding:
    """The result of `tvmbuild debug`."""

    cell: str
    nodes: int
    builds: int
    problem: str | None
    """The gate's words about the package's outputs; None if they are right."""
    closeness: str
    """The package's largest error, in words."""
    remark: str | None = None
    """The reason why no place is named although the gate fails, or a remark about the search."""
    suspect: Suspect | None = None
    places: tuple[PlaceError, ...] = ()
    """The errors of all places in one build that returns all of them."""
    frames: str | None = None
    """The comparison of the package's frames and results in words. None: it has neither, or the network is wrong."""
    frames_are_wrong: bool = False
    is_right: bool = False
    """True if the gate passes and the package's error is no larger than rounding explains."""
    is_outdated: bool = False
    """True if the package is wrong, but no place of the one that this version builds is."""
    rebuilt: str = ""
    """The largest error of the package that this version builds, in words."""
    not_finite: str | None = None
    """The inputs that hold NaN or infinity, in words. None if all numbers are finite, or if the gate chose them."""

    @property
    def is_wrong(self) -> bool:
        """True if a number is wrong: of this package, of its frames, or of the package that this version builds."""
        return self.suspect is not None or self.frames_are_wrong or self.is_outdated

    def to_json(self) -> dict[str, object]:
        """Return the finding as a JSON value. ``from_json`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Finding:
        """Read the value of `to_json`."""
        suspect = value["suspect"]
        fields = {**value, "suspect": suspect and _read_suspect(suspect), "places": _read_places(value["places"])}
        return cls(**fields)


def _read_suspect(value: Mapping[str, Any]) -> Suspect:
    fields = {
        **value,
        "place": PlaceError(**value["place"]),
        "inputs": _read_places(value["inputs"]),
        "tasks": tuple(TaskFacts(**each) for each in value["tasks"]),
        "tried": tuple(Tried(**each) for each in value["tried"]),
        "nodes": tuple(value["nodes"]),
        "fused": tuple(value["fused"]),
        "range": tuple(value["range"]),
    }
    return Suspect(**fields)


def _read_places(values: Any) -> tuple[PlaceError, ...]:
    return tuple(PlaceError(**each) for each in values)
