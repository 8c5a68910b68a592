"""The properties of results that the references do not know, so that a new one is not compared by the wrong rules."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes, Classes, Heatmaps, Raw, Segmentation, Text, Vector
from tvmbuild.benchmarking.frames.grids import PLACES

_KNOWN_OF_BOXES = (
    *("form", "outputs", "score", "overlap", "most", "agnostic", "anchors", "strides", "variances"),
    *("points", "values", "labels", "resolution"),
)
_KNOWN_OF_CLASSES = ("outputs", "activation", "score", "most", "labels")
_KNOWN_OF_FORMS = (
    *("layout", "corners", "objectness", "ready", "split", "activation", "background", "normalised", "strides"),
    *("suppress", "priors", "swapped", "places"),
)
"""The fields of a form of boxes that `boxes` and `box_check` know."""
_KNOWN_OF_GRIDS = ("parts", "boxes", "sigmoid", "root", "points", "suppress")
_KNOWN_PARTS = ("classes", "objectness", "boxes", "points", "sizes", "offsets", "all")
"""The fields of a form of grids, and the outputs, that `grids` knows."""


def list_unknown_boxes(asked: Boxes) -> list[str]:
    """Return the properties of asked boxes, and of their form, that `boxes`, `grids` and `mask_check` do not know."""
    own = find_unknown(asked, _KNOWN_OF_BOXES)
    if asked.form in BOX_FORMS:
        return [*own, *find_unknown(BOX_FORMS[asked.form], _KNOWN_OF_FORMS)]
    grids = GRID_FORMS.get(asked.form)
    if grids is None:
        return [f"the form {asked.form}"]
    strange = [f"outputs of {part}" for part in grids.parts if part not in _KNOWN_PARTS]
    strange += [] if grids.boxes in PLACES else [f"boxes by {grids.boxes}"]
    return [*own, *find_unknown(grids, _KNOWN_OF_GRIDS), *strange]


def list_unknown_classes(asked: Classes) -> list[str]:
    """Return the properties of asked classes that `class_check` does not know."""
    return find_unknown(asked, _KNOWN_OF_CLASSES)


def list_unknown_texts(asked: Text) -> list[str]:
    """Return the properties of an asked text that `plain_checks` does not know."""
    return find_unknown(asked, ("outputs", "activation", "blank"))


def list_unknown_vectors(asked: Vector) -> list[str]:
    """Return the properties of an asked vector that `plain_checks` does not know."""
    return find_unknown(asked, ("outputs", "normalise"))


def list_unknown_maps(asked: Segmentation) -> list[str]:
    """Return the properties of an asked map that `map_check` does not know."""
    return find_unknown(asked, ("outputs", "interpolation", "activation", "score", "labels", "resolution"))


def list_unknown_points(asked: Heatmaps) -> list[str]:
    """Return the properties of asked heatmaps that `plain_checks` does not know."""
    return find_unknown(asked, ("outputs", "labels"))


def list_unknown_outputs(asked: Raw) -> list[str]:
    """Return the properties of asked outputs that `plain_checks` does not know."""
    return find_unknown(asked, ("outputs",))


def find_unknown(value: Any, known: Collection[str]) -> list[str]:
    """Return the names of the fields of a dataclass that are not known and do not have their default."""
    return [each.name for each in fields(value) if each.name not in known and getattr(value, each.name) != each.default]
