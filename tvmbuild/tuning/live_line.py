"""The live line of a search: how far it is, and what the model takes now."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from tvmbuild.base.pace import describe_left
from tvmbuild.base.progress import report_progress
from tvmbuild.base.wording import count
from tvmbuild.tuning.agenda import Agenda
from tvmbuild.tuning.record_book import RecordBook
from tvmbuild.tuning.scheduler import predict_latency
from tvmbuild.tuning.task_search import BATCH, TaskSearch


class LiveLine:
    """What is said of the searches of an agenda."""

    def __init__(self, agenda: Agenda, book: RecordBook, searches: Sequence[TaskSearch]) -> None:
        self._searches, self._one_model = searches, agenda.one_model
        chosen = {task.key for task in agenda.chosen}
        others = [task for task in agenda.tasks if task.key not in chosen]
        bests = [(task.weight, book.best_here(task)) for task in others]
        self._others = sum(weight * best[0].seconds for weight, best in bests if best)
        self._start = time.monotonic()

    @property
    def measured(self) -> int:
        """How many candidates were measured."""
        return sum(search.curve.measured for search in self._searches)

    def show(self) -> None:
        """Report it."""
        curves = [search.curve for search in self._searches]
        left = sum(max(0, each.allowance.share - each.proposed) for each in self._searches if not each.over)
        seconds = time.monotonic() - self._start
        rate = self.measured / seconds
        over = sum(search.over for search in self._searches)
        known = self._one_model and all(math.isfinite(curve.best) for curve in curves)
        parts = [f"{over}/{len(curves)} Tasks"]  # what matters most comes first: a narrow terminal shows no more
        if known:
            parts.append(f"{(self._others + predict_latency(curves, 0)) * 1e3:.3g} ms")
        if left:
            parts.append(f"at most {describe_left(left / rate)} left")
        if known:
            parts.append(f"{(self._others + predict_latency(curves, math.ceil(left / BATCH))) * 1e3:.3g} ms expected")
        parts.append(f"{count(self.measured, 'candidate')}, {rate:.1f}/s")
        report_progress("; ".join(parts))
