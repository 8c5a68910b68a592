"""The likeliest classes of a classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm import relax

from tvmbuild.base.postprocess_specs import Classes
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.classes import ClassScores, write_classes
from tvmbuild.compiler.kernels.results.select import Selection, list_candidate_forms, write_selection
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import find_output, refuse_output


@dataclass(frozen=True)
class ClassResult:
    """The classes with the highest scores in one output."""

    places: tuple[int, ...]
    scores: ClassScores
    selection: Selection

    @property
    def classes(self) -> int | None:
        """The number of classes that labels name, as in `ResultForm`."""
        return self.scores.count

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the results [1 + most, 6]; their boxes are zeros."""
        function = write_classes(self.scores, on_gpu=calls.on_gpu)
        found = calls.add("classes", function, request.outputs, list_candidate_forms(self.scores.count))
        function = write_selection(self.selection, on_gpu=calls.on_gpu)
        arguments = [*found, request.thresholds, request.geometry]
        return calls.add("selection", function, arguments, self.selection.list_outputs())[:1]


def describe_classes(interface: Interface, _: EntryOptions, asked: Classes) -> ClassResult:
    """Return the form of the classes. Raises TvmbuildError if the output does not have one score for each class."""
    place, info = find_output(interface, asked.outputs, "the result `classes`")
    count = math.prod(info.shape)
    if sum(size != 1 for size in info.shape) != 1 or (len(info.shape) > 1 and info.shape[0] != 1):
        raise refuse_output("`classes` needs an output with one score for each class", info)
    scores = ClassScores(count, (info.shape, info.dtype), asked.activation)
    return ClassResult((place,), scores, Selection(count, min(asked.most, count), suppress=False))
