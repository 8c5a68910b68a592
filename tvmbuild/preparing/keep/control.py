"""NNCF's accuracy control, which returns operators to floats one after the other, until the accuracy is enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvmbuild.base.kept_nodes import KeptShare
from tvmbuild.base.progress import report_progress
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.keep.choose import Choice
from tvmbuild.preparing.keep.errors import Arrays, OutputError
from tvmbuild.preparing.keep.groups import PRODUCTS, find_dequantised, list_groups
from tvmbuild.preparing.keep.reduced import QuantisedModel
from tvmbuild.preparing.keep.search import Judged
from tvmbuild.preparing.reference import open_onnx

RANKED = 8
"""The number of samples on which NNCF ranks operators."""


@dataclass
class Control:
    """The accuracy that a library is to keep, and the models that it has judged so far."""

    judge: Callable[[Callable[[Arrays], Arrays]], Judged]
    samples: Sequence[Arrays]
    """The real inputs, with which the library ranks operators."""
    judged: list[Judged] = field(default_factory=list)
    """The float model, the model with all operators quantised, and each further one."""
    _errors: dict[int, OutputError] | None = None
    """The identity of a sample → the error of outputs for it."""

    def judge_original(self, model: Any) -> Judged:
        """Judge the float model. Raises TvmbuildError if it misses a threshold itself."""
        judged = self.judge(open_onnx(model.SerializeToString(), "the float model"))
        if not judged.is_enough:
            raise TvmbuildError(
                f"the float model misses its own thresholds: {'; '.join(judged.shortfalls)}",
                "correct the thresholds of the model's `accuracy:`.",
            )
        return judged

    def measure(self, model: Any, samples: Iterable[Arrays]) -> tuple[float, list[float]]:
        """Return a figure of a model, and one for each of the ``samples``; more is better.

        For all samples it is the margin above the thresholds. For some of them, by which NNCF ranks operators, and for
        each by itself, it is the error of the outputs, negated: a metric of a few samples tells nothing.
        """
        asked = list(samples)
        run = open_onnx(model.SerializeToString(), "the quantised model")
        if self._errors is None:  # the first model is the float one
            self._errors = {id(each): OutputError([run(each)]) for each in self.samples}
        values = [-self._errors[id(each)].measure([run(each)]) for each in asked]
        if len(asked) < len(self.samples):
            return float(np.mean(values)), values
        judged = self.judge(run)
        self.judged.append(judged)
        if len(self.judged) > 1:
            report_progress(f"NNCF tries set {len(self.judged) - 1}: {judged.told}")
        return judged.margin, values

    def describe(self, quantised: Any, original: Any, started: float) -> Choice:
        """Return the operators of the QDQ model ``quantised`` that the library left in floats, and their cost."""
        products = {node.name for node in original.graph.node if node.op_type in PRODUCTS}
        groups, rounded = list_groups(original, products), find_dequantised(quantised)
        whole = sum(each.cost for each in groups) or 1.0
        kept = tuple(
            KeptShare(each.name, each.nodes, None, each.cost / whole) for each in groups if each.name not in rounded
        )
        after = self.judge(open_onnx(quantised.SerializeToString(), "the quantised model"))
        seconds, words = time.monotonic() - started, QuantisedModel.words
        return Choice(kept, len(groups), self.judged[1], after, words, seconds, len(self.judged) - 1, "NNCF")
