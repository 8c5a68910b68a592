"""The operators of a quantised network that stay in floats, so that the model's `accuracy:` is kept."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import Accuracy
from tvmbuild.benchmarking.accuracy import Judge
from tvmbuild.benchmarking.agreement import Agreement, list_shortfalls
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.samples import Samples
from tvmbuild.preparing.keep.choose import MEASURED, Choice, KeepSearch, Run
from tvmbuild.preparing.keep.search import Judged
from tvmbuild.preparing.quantise import Choose
from tvmbuild.records.kept import list_kept_nodes, read_kept, write_kept


@dataclass(frozen=True)
class Keeping:
    """A search for operators that stay in floats, whose result is kept in a file."""

    model: str
    accuracy: Accuracy
    judge: Judge
    samples: Samples
    """The samples that calibrate the quantisation. Each group of operators is tried on some of them."""
    known: Path
    """The file with the result of an earlier search, if there was one."""

    def choose(self, quantised: Any, original: Any) -> tuple[Any, Choice]:
        """Return the QDQ model with the chosen operators in floats, and the choice.

        ``original`` is the float model. Raises TvmbuildError if the accuracy is not enough with any in floats.
        """
        tried = list(islice(self.samples, MEASURED))
        search = KeepSearch(quantised, original, tried, self._judge)
        choice = self._take_known(search) or search.find()
        if choice is None:
            raise TvmbuildError(
                f"{self.model} is not accurate enough, whichever of its operators stay in floats: "
                + "; ".join(search.judge(search.nodes).shortfalls),
                "correct the thresholds of its `accuracy:`; the float model itself may miss them.",
            )
        write_kept(self.known, self.model, choice.to_json()["groups"], choice.tell())
        return search.build(choice.nodes), choice

    def follow(self, choice: Choice) -> Choose:
        """Return the function that leaves the operators of an earlier choice in floats, in another size of the model.

        An operator that this size does not have, because its shapes made it a constant, is passed over.
        """

        def choose(quantised: Any, original: Any) -> tuple[Any, Choice]:
            search = KeepSearch(quantised, original, (), self._judge)
            return search.build(choice.nodes & search.nodes), choice

        return choose

    def _take_known(self, search: KeepSearch) -> Choice | None:
        """Return the choice in the file, judged anew. None: there is none, or it is not enough any more."""
        found = read_kept(self.known)
        if found is None or not list_kept_nodes(found) <= search.nodes:
            return None
        judged = search.judge(list_kept_nodes(found))
        if judged.is_enough:
            report_progress(f"the operators in floats come from {self.known}")
            return search.read(found, judged)
        report_progress(f"the operators in {self.known} are not enough any more: {'; '.join(judged.shortfalls)}")
        return None

    def _judge(self, run: Run) -> Judged:
        agreement = self.judge(run)
        short = list_shortfalls(agreement, self.accuracy)
        return Judged(not short, _describe(agreement, self.accuracy), short)


def _describe(found: Agreement, asked: Accuracy) -> str:
    """Return the figures with a threshold."""
    parts = []
    if asked.metric is not None and found.metric is not None:
        parts.append(f"{asked.metric.function} {found.metric:.4g} (the original's {found.metric_original:.4g})")
    parts += [f"top1 {found.top1:.4g}"] if asked.top1 is not None else []
    parts += [f"rms {found.rms:.3g}"] if asked.rms is not None and found.rms is not None else []
    known = asked.of_largest is not None and found.of_largest is not None
    return ", ".join([*parts, *([f"of_largest {found.of_largest:.3g}"] if known else [])])
