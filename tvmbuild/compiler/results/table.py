"""The table of the kinds of results: the module that describes each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvmbuild.base.postprocess_specs import (
    Boxes,
    Classes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Segmentation,
    Text,
    Vector,
)
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.results.boxes import describe_boxes
from tvmbuild.compiler.results.classes import describe_classes
from tvmbuild.compiler.results.form import ResultForm
from tvmbuild.compiler.results.heatmaps import describe_heatmaps
from tvmbuild.compiler.results.segmentation import describe_segmentation
from tvmbuild.compiler.results.text import describe_text
from tvmbuild.compiler.results.vector import describe_vector

_DESCRIBED_BY: Mapping[type[Postprocess], Callable[[Interface, EntryOptions, Any], ResultForm]] = {
    Boxes: describe_boxes,
    Masks: describe_boxes,
    Keypoints: describe_boxes,
    Classes: describe_classes,
    Segmentation: describe_segmentation,
    Text: describe_text,
    Vector: describe_vector,
    Heatmaps: describe_heatmaps,
}


def describe_results(interface: Interface, options: EntryOptions) -> tuple[ResultForm, ...]:
    """Return the forms of the results that the options ask for.

    Raises TvmbuildError if the outputs do not have the forms that are asked for.
    """
    return tuple(_DESCRIBED_BY[type(each)](interface, options, each) for each in options.postprocess)
