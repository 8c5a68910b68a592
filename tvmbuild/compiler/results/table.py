"""The table of the kinds of results: the module that describes each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvmbuild.base.postprocess_specs import (
    Boxes,
    Classes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Raw,
    Segmentation,
    Text,
    Vector,
    kind_of,
)
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.results.boxes import describe_boxes
from tvmbuild.compiler.results.classes import describe_classes
from tvmbuild.compiler.results.form import ResultForm
from tvmbuild.compiler.results.heatmaps import describe_heatmaps
from tvmbuild.compiler.results.raw import describe_raw
from tvmbuild.compiler.results.segmentation import describe_segmentation
from tvmbuild.compiler.results.text import describe_text
from tvmbuild.compiler.results.vector import describe_vector
from tvmbuild.errors import TvmbuildError

_DESCRIBED_BY: Mapping[type[Postprocess], Callable[[Interface, EntryOptions, Any], ResultForm]] = {
    Boxes: describe_boxes,
    Masks: describe_boxes,
    Keypoints: describe_boxes,
    Classes: describe_classes,
    Segmentation: describe_segmentation,
    Text: describe_text,
    Vector: describe_vector,
    Heatmaps: describe_heatmaps,
    Raw: describe_raw,
}


def describe_results(interface: Interface, options: EntryOptions) -> tuple[ResultForm, ...]:
    """Return the forms of the results that the options ask for.

    Raises TvmbuildError if the outputs do not have the forms that are asked for.
    """
    return tuple(_DESCRIBED_BY[type(each)](interface, options, each) for each in options.postprocess)


def check_labels(interface: Interface, options: EntryOptions, labels: Sequence[str] = ()) -> None:
    """Raise TvmbuildError if labels do not name each class of a result.

    ``labels`` are those of the model, which the results without labels of their own have. The outputs must have the
    forms that the options ask for.
    """
    for asked, form in zip(options.postprocess, describe_results(interface, options), strict=True):
        own: tuple[str, ...] = getattr(asked, "labels", ())
        where = "its `labels`" if own else "the file of its `labels`"
        _check_labels(interface.model, asked, form, own or labels, where)


def _check_labels(model: str, asked: Postprocess, form: ResultForm, labels: Sequence[str], where: str) -> None:
    """Raise TvmbuildError if there are labels, but not one for each class: then some classes have wrong names."""
    if labels and form.classes is not None and len(labels) != form.classes:
        raise TvmbuildError(
            f"{where} has {len(labels)} names, and the result `{kind_of(asked)}` of {model} has {form.classes} classes",
            "name each of the classes in the order of the output; a name may be empty",
        )
