"""The check whether the values of a network's outputs may mean what a result takes them for.

Values of one random picture suffice, because probabilities stay in [0, 1] and boxes have positive sides for any input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import (
    BOX_FORMS,
    Activation,
    Boxes,
    BoxForm,
    Classes,
    Keypoints,
    Masks,
    Postprocess,
    Text,
)

_SLACK = 1e-3
"""The rounding errors of a probability, or of a sum of probabilities."""
_NEARLY_ALL = 0.99
"""The share of the boxes that must have positive sides."""
_FAR = 0.25
"""The part of the input's longer side that some place in pixels exceeds, but no place relative to a cell."""
_BESIDE = 0.5
"""The largest distance of a box beyond the input, as a share of the input's side."""


def is_plausible(asked: Postprocess, arrays: Sequence[np.ndarray], size: tuple[int, int]) -> bool:
    """Return whether the outputs' values are plausible for a kind of result: probabilities, boxes in the picture.

    ``size`` is the input's height and width, in pixels. Results without a form that tells are plausible.
    """
    if isinstance(asked, Boxes):
        if asked.form in GRID_FORMS:
            return _fits_grids(asked.form, arrays)
        form, more = BOX_FORMS[asked.form], _count_more(asked, arrays)
        rows = [_as_rows(form, each) for each in (arrays[:1] if isinstance(asked, Masks) else arrays)]
        return 0 in rows[0].shape or _fits_boxes(form, rows, more, size)
    if isinstance(asked, Classes):
        return _fits_activation(asked.activation, arrays[0].reshape(1, -1), one_of=False)
    if isinstance(asked, Text):
        return _fits_activation(asked.activation, arrays[0].reshape(-1, arrays[0].shape[-1]), one_of=True)
    return True


def _fits_grids(name: str, arrays: Sequence[np.ndarray]) -> bool:
    """Return whether the first grid's scores are probabilities, or logits if the form has a sigmoid."""
    form = GRID_FORMS[name]
    scores = arrays[: len(arrays) // len(form.parts) * (2 if "objectness" in form.parts else 1)]
    return all(_are_probabilities(each) != form.sigmoid for each in scores)


def _as_rows(form: BoxForm, array: np.ndarray) -> np.ndarray:
    """Return an output as [boxes, values]."""
    value = array[0] if array.ndim > 1 + (not form.apart) else array
    if value.ndim == 1:
        value = value[:, None]
    return value.T if form.layout == "columns" else value


def _fits_boxes(form: BoxForm, rows: Sequence[np.ndarray], more: int, size: tuple[int, int]) -> bool:
    """Return whether boxes and scores fit. ``more`` is the number of values after the scores."""
    first = rows[0]
    places = rows[1][:, :4] if form.split else first[:, form.places[0] : form.places[0] + 4]
    if form.ready:
        _, score, kind = form.places
        kinds = rows[2][:, 0] if form.apart else first[:, kind]
        scores = first[:, 0] if form.apart else first[:, score]
        fits = _are_probabilities(scores) and bool(np.all(kinds == np.round(kinds)))
    else:
        scores = first[:, form.begin - form.objectness - (form.background == "first") : first.shape[1] - more]
        fits = _fits_activation(form.activation, scores, one_of=form.background == "first")
    return fits and _fits_places(form, places, size)


def _count_more(asked: Boxes, arrays: Sequence[np.ndarray]) -> int:
    """Return the number of coefficients or coordinates of points after the scores of a box."""
    if isinstance(asked, Masks):
        return int(arrays[1].shape[1])
    return asked.points * asked.values if isinstance(asked, Keypoints) else 0


def _fits_places(form: BoxForm, places: np.ndarray, size: tuple[int, int]) -> bool:
    """Return whether boxes are relative to their prior or cell, or have positive sides in the input."""
    if form.priors == "scaled":
        return bool((places < 0).any())
    reach = float(np.abs(places[:, :2]).max())
    if form.strides:
        return reach < _FAR * max(size)
    sides = places[:, 2:] - places[:, :2] if form.corners else places[:, 2:]
    if (sides >= 0).all(axis=1).mean() < _NEARLY_ALL:
        return False
    if form.normalised:
        return bool(((places > -_BESIDE) & (places < 1 + _BESIDE)).mean() > _NEARLY_ALL)
    return form.ready or form.priors != "none" or reach > _FAR * max(size)


def _fits_activation(activation: Activation, scores: np.ndarray, *, one_of: bool) -> bool:
    """Return whether scores [rows, classes] are probabilities, or the logits from which a function makes them.

    ``one_of``: the probabilities of a row sum to 1.
    """
    ready = _are_probabilities(scores)
    sums = bool(np.abs(scores.astype(np.float64).sum(axis=1) - 1).max() < _SLACK * max(1, scores.shape[1] ** 0.5))
    if activation == "none":
        return ready and (sums or not one_of)
    return not (ready and (sums or activation == "sigmoid"))


def _are_probabilities(values: np.ndarray) -> bool:
    return bool((values >= -_SLACK).all() and (values <= 1 + _SLACK).all())
