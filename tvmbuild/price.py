"""What tuning would cost: Tasks, candidates and seconds of each cell, from the record files alone. No tvm here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tvmbuild.effort import History
from tvmbuild.errors import TvmbuildError
from tvmbuild.layout import Layout
from tvmbuild.records.journal import read_entries
from tvmbuild.records.selection import (
    TaskId,
    elect,
    is_wanted,
    needs_search,
    read_applicable,
    resolved_target,
    wanted_trials,
)
from tvmbuild.records.store import TaskFile
from tvmbuild.steps import Step, TuneStep


@dataclass(frozen=True)
class TaskPrice:
    """What one Task of a cell costs."""

    task: TaskId
    covered: bool
    """Some applicable record can be elected."""
    trials: int = 0
    """Candidates to measure, at most; 0: it is not tuned, or another cell of the list tunes it before."""
    seconds: float | None = 0.0
    """None: nothing like it has been searched yet."""


@dataclass(frozen=True)
class CellPrice:
    """What tuning one cell costs. None is `not known`."""

    cell: str
    target: str
    tasks: tuple[TaskPrice, ...] | None
    """None: which Tasks the cell has is not known before simplify and tune have run."""
    searches: bool = True
    """False: the mode is `never`, no device can be asked or `ops` is empty: the price is 0, Tasks known or not."""

    @property
    def covered(self) -> int | None:
        """How many Tasks have a record."""
        return None if self.tasks is None else sum(price.covered for price in self.tasks)

    @property
    def to_tune(self) -> int | None:
        """How many Tasks would be searched for this cell."""
        return self._known(sum(price.trials > 0 for price in self.tasks or ()))

    @property
    def trials(self) -> int | None:
        """How many candidates would be measured, at most."""
        return self._known(sum(price.trials for price in self.tasks or ()))

    @property
    def seconds(self) -> float | None:
        """How long that would take."""
        return add_seconds([None if self.trials is None else 0.0, *(price.seconds for price in self.tasks or ())])

    def _known(self, value: int) -> int | None:
        return None if self.tasks is None and self.searches else value


@dataclass(frozen=True)
class TotalPrice:
    """All cells together, a Task that several have counted once; what is not known of a cell is not in it."""

    tasks: int | None
    """None: not known of every cell."""
    known_tasks: int
    covered: int
    to_tune: int
    trials: int
    seconds: float | None
    """None: not known of every cell."""
    known_seconds: float


def price_cells(cells: Iterable[tuple[Step, Sequence[TaskId] | None]], device_class: str) -> tuple[CellPrice, ...]:
    """Return the price of each cell: its tune step and its Tasks, None where they are not known.

    A Task that several cells have is paid by the first, as it is when they run; with `tune=full` every cell searches
    all of its own again. ``device_class`` is the machine's that would measure.
    """
    counter: _Counter | None = None
    prices = []
    for step, tasks in cells:
        counter = counter or _Counter(History(Layout(step.root).records(""), device_class))
        prices.append(counter.price(step, tasks))
    return tuple(prices)


def total_price(prices: Sequence[CellPrice]) -> TotalPrice:
    """Return the sum."""
    known = {(cell.target, price.task.key): price for cell in prices for price in cell.tasks or ()}
    tuned = {(cell.target, price.task.key) for cell in prices for price in cell.tasks or () if price.trials}
    return TotalPrice(
        tasks=len(known) if all(cell.tasks is not None for cell in prices) else None,
        known_tasks=len(known),
        covered=sum(price.covered for price in known.values()),
        to_tune=len(tuned),
        trials=sum(cell.trials or 0 for cell in prices),
        seconds=add_seconds([cell.seconds for cell in prices]),
        known_seconds=sum(price.seconds or 0.0 for cell in prices for price in cell.tasks or ()),
    )


def add_seconds(seconds: Iterable[float | None]) -> float | None:
    """Return the sum, None when a part is not known."""
    total = 0.0
    for part in seconds:
        if part is None:
            return None
        total += part
    return total


@dataclass(frozen=True)
class _Known:
    """What is known of a Task: whether a record covers it, and its file without records, which are large."""

    covered: bool = False
    file: TaskFile | None = None
    measured: int = 0
    """Candidates, those of an interrupted search's journal included."""


class _Counter:
    """Reads each record file once, and knows what the cells before this one would measure."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._known: dict[tuple[str, str], _Known] = {}
        self._planned: dict[tuple[str, str], int] = {}

    def price(self, step: Step, tasks: Sequence[TaskId] | None) -> CellPrice:
        options = step.options
        if not isinstance(options, TuneStep):
            raise TypeError(f"not a tune step: {step.id}")
        searches = step.unavailable is None and step.settings.tune != "never" and options.tune.ops != ()
        known = None if tasks is None else tuple(self._price(step, options, task, len(tasks)) for task in tasks)
        return CellPrice(step.subject, options.target, known, searches)

    def _price(self, step: Step, options: TuneStep, task: TaskId, tasks: int) -> TaskPrice:
        where = (options.target, task.key)
        if where not in self._known:
            self._known[where] = _read(Layout(step.root), options, task.key)
        known = self._known[where]
        trials = 0 if step.unavailable is not None else self._count_trials(step, options, task, tasks)
        if trials <= 0:
            return TaskPrice(task, known.covered)
        self._planned[where] = self._planned.get(where, 0) + trials
        return TaskPrice(task, known.covered, trials, self._history.estimate(options, task.name, known.file, trials))

    def _count_trials(self, step: Step, options: TuneStep, task: TaskId, tasks: int) -> int:
        """Return how many candidates the step would measure for the Task."""
        wanted = wanted_trials(options.tune, tasks)
        if step.settings.tune == "never":
            return 0
        if step.settings.tune == "full":
            return wanted if is_wanted(task.name, options.tune) else 0
        where = (options.target, task.key)
        known = self._known[where]
        if not needs_search(known.file, task.name, options.tune, tasks):
            return 0
        return wanted - known.measured - self._planned.get(where, 0)


def _read(layout: Layout, options: TuneStep, key: str) -> _Known:
    """Return what is known of the Task; a damaged file counts as none, as it does for the search."""
    try:
        file = read_applicable(layout.records(options.target), key, resolved_target(options))
    except TvmbuildError:
        file = None
    journaled = max((entry.measured for entry in read_entries(layout.journal(options.target, key))), default=0)
    if file is None:
        return _Known(measured=journaled)
    covered = elect(file, options.measured_on) is not None
    return _Known(covered, replace(file, records=(), workload=""), max(file.most_searched, journaled))
