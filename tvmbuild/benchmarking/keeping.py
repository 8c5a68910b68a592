"""The operators of a network that stay in floats, so that the model's `accuracy:` is kept in a reduced precision."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tvmbuild.base.files import canonical_json, sha256_file
from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import Accuracy
from tvmbuild.base.steps import Step
from tvmbuild.benchmarking.accuracy import Judge
from tvmbuild.benchmarking.agreement import Agreement, list_shortfalls, measure_margin
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.keep.choose import MEASURED, Choice, KeepSearch, Run
from tvmbuild.preparing.keep.errors import Arrays
from tvmbuild.preparing.keep.reduced import Reduced
from tvmbuild.preparing.keep.search import Judged
from tvmbuild.records.kept import list_kept_nodes, read_kept, write_kept


@dataclass(frozen=True)
class Keeping:
    """A search for operators that stay in floats, whose result is kept in a file."""

    model: str
    accuracy: Accuracy
    judge: Judge
    samples: Iterable[Arrays]
    """Real inputs. Each group of operators is tried on the first few of them."""
    known: Path
    """The file with the result of an earlier search, if there was one."""

    def choose(self, reduced: Reduced) -> Choice:
        """Return the choice of operators. Raises TvmbuildError if the accuracy is not enough with any in floats."""
        tried = list(islice(self.samples, MEASURED))
        search = KeepSearch(reduced, tried, self.judge_run)
        choice = self._take_known(search) or search.find()
        if choice is None:
            raise TvmbuildError(
                f"{self.model} is not accurate enough, whichever of its operators stay in floats: "
                + "; ".join(search.judge(search.nodes).shortfalls),
                "correct the thresholds of its `accuracy:`; the float model itself may miss them.",
            )
        write_kept(self.known, self.model, choice.to_json()["groups"], choice.tell())
        return choice

    def _take_known(self, search: KeepSearch) -> Choice | None:
        """Return the choice in the file, judged again. None: there is none, or it is not enough any more."""
        found = read_kept(self.known)
        if found is None or not list_kept_nodes(found) <= search.nodes:
            return None
        judged = search.judge(list_kept_nodes(found))
        if judged.is_enough:
            report_progress(f"the operators in floats come from {self.known}")
            return search.read(found, judged)
        report_progress(f"the operators in {self.known} are not enough any more: {'; '.join(judged.shortfalls)}")
        return None

    def judge_run(self, run: Run) -> Judged:
        """Judge a model, given the function that runs it, by the thresholds."""
        agreement = self.judge(run)
        short = list_shortfalls(agreement, self.accuracy)
        return Judged(not short, _describe(agreement, self.accuracy), short, measure_margin(agreement, self.accuracy))


def _describe(found: Agreement, asked: Accuracy) -> str:
    """Return the figures with a threshold."""
    parts = []
    if asked.metric is not None and found.metric is not None:
        parts.append(f"{asked.metric.function} {found.metric:.4g} (the original's {found.metric_original:.4g})")
    parts += [f"top1 {found.top1:.4g}"] if asked.top1 is not None else []
    parts += [f"rms {found.rms:.3g}"] if asked.rms is not None and found.rms is not None else []
    parts += [f"NaN or infinity in {found.unlike} of {found.samples} samples"] if found.unlike else []
    known = asked.of_largest is not None and found.of_largest is not None
    return ", ".join([*parts, *([f"of_largest {found.of_largest:.3g}"] if known else [])])


def digest_step(step: Step[Any]) -> str:
    """Return a short digest of a search's inputs: files, options, and the versions of tools.

    Files of smaller sizes do not count, because the search uses the largest one, nor do references, which differ by a
    rounding error between machines.
    """
    left_out = ("reference", "model ")
    files = {role: sha256_file(path) for role, path in step.inputs.items() if not role.startswith(left_out)}
    told = canonical_json([files, repr(step.options), sorted(step.tools.items()), step.version])
    return hashlib.sha256(told.encode()).hexdigest()[:16]
