"""The price of tuning: Tasks, candidates and seconds of each cell. This module imports no tvm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.choices import DIRECT, Choices, Graph, read_choices
from tvmbuild.records.journal import read_entries
from tvmbuild.records.selection import (
    RULE_TRIALS,
    Rules,
    TaskId,
    elect,
    is_wanted,
    lags,
    must_choose,
    needs_search,
    read_applicable,
    resolved_target,
    wanted_trials,
)
from tvmbuild.records.task_file import TaskFile
from tvmbuild.tuning.rates import NO_TIME, Rates, Seconds, add_seconds, place_of, read_rates

WINOGRAD = ("winograd_input", "winograd_products")
"""The names of the Tasks that are assumed for each further algorithm of a convolution, because `tasks.json` has only
the Tasks of the chosen algorithms. In fact an algorithm has one to three Tasks.
"""


@dataclass(frozen=True)
class Known:
    """The facts about a cell in its `tasks.json`, or in those of its sizes."""

    tasks: tuple[TaskId, ...]
    graphs: tuple[Graph, ...] = ()
    """The graphs that have algorithms to choose: at most one for each size."""


@dataclass(frozen=True)
class TaskPrice:
    """The price of one Task of a cell."""

    task: TaskId
    covered: bool
    """True if an applicable record can be elected."""
    trials: int = 0
    """The largest number of candidates to measure. It is 0 if the Task is not tuned, or if another cell of the list
    tunes it first.
    """
    seconds: Seconds | None = NO_TIME
    """The time of its search, or None if nothing similar has been searched yet."""
    lags: bool = False
    """True if its search is over, but knew only older rules. Then only the present rules' schedules are measured."""


@dataclass(frozen=True)
class CellPrice:
    """The price of tuning one cell. A value of None is unknown."""

    cell: str
    target: str
    tasks: tuple[TaskPrice, ...] | None
    """The price of each Task, or None if the cell's Tasks are unknown because simplify and tune have not run yet."""
    searches: bool = True
    """True if the cell may be searched. It may not if the mode is `never`, the step cannot run, or `ops` is empty. The
    price is then 0.
    """
    choice: tuple[TaskPrice, ...] = ()
    """The price of the Tasks of further algorithms for its convolutions. All are measured before one is chosen."""
    minutes: float | None = None
    """The time limit of the search in minutes, or None if there is no limit."""

    @property
    def covered(self) -> int | None:
        """The number of Tasks that have a record, or None if the Tasks are unknown."""
        return None if self.tasks is None else sum(price.covered for price in self.all_tasks)

    @property
    def to_tune(self) -> int | None:
        """The number of Tasks that would be searched for this cell, or None if the Tasks are unknown."""
        return self._known(sum(price.trials > 0 for price in self.all_tasks))

    @property
    def trials(self) -> int | None:
        """The largest number of candidates that would be measured, or None if the Tasks are unknown."""
        return self._known(sum(price.trials for price in self.all_tasks))

    @property
    def seconds(self) -> Seconds | None:
        """The time that the search would take, or None if it is unknown."""
        found = add_seconds([None if self.trials is None else NO_TIME, *(price.seconds for price in self.all_tasks)])
        return found if found is None or self.minutes is None else found.at_most(60 * self.minutes)

    @property
    def lagging(self) -> int:
        """The number of Tasks that are measured only because the rules changed."""
        return sum(price.lags for price in self.all_tasks)

    @property
    def all_tasks(self) -> tuple[TaskPrice, ...]:
        """The known Tasks, and the Tasks of further algorithms."""
        return (*(self.tasks or ()), *self.choice)

    def _known(self, value: int) -> int | None:
        return None if self.tasks is None and self.searches else value


@dataclass(frozen=True)
class TotalPrice:
    """The price of all cells, with common Tasks counted once; unknown parts of a cell are not included."""

    tasks: int | None
    """The number of Tasks, or None if it is unknown for some cell."""
    known_tasks: int
    covered: int
    to_tune: int
    trials: int
    seconds: Seconds | None
    """The time of the searches, or None if it is unknown for some cell."""
    known_seconds: Seconds


def price_cells(cells: Iterable[tuple[Step[TuneStep], Known | None]]) -> tuple[CellPrice, ...]:
    """Return the price of each cell, which is given by its tune step and its Tasks (None if they are unknown).

    The first of several cells with the same Task pays for it, as in a run. With `tune=full`, every cell searches all
    its own Tasks again.
    """
    counter = _Counter()
    return tuple(counter.price(step, known) for step, known in cells)


def total_price(prices: Sequence[CellPrice]) -> TotalPrice:
    """Return the price of all cells together."""
    known = {(cell.target, price.task.key): price for cell in prices for price in cell.all_tasks}
    tuned = {(cell.target, each.task.key) for cell in prices for each in cell.all_tasks if each.trials}
    return TotalPrice(
        tasks=len(known) if all(cell.tasks is not None for cell in prices) else None,
        known_tasks=len(known),
        covered=sum(price.covered for price in known.values()),
        to_tune=len(tuned),
        trials=sum(cell.trials or 0 for cell in prices),
        seconds=add_seconds([cell.seconds for cell in prices]),
        known_seconds=sum((price.seconds or NO_TIME for cell in prices for price in cell.all_tasks), NO_TIME),
    )


@dataclass(frozen=True)
class _Searched:
    """The state of a Task's search.

    ``covered`` tells whether a record can be elected. ``file`` lacks its records, because they are large.
    """

    covered: bool = False
    file: TaskFile | None = None
    measured: int = 0
    """The number of measured candidates, including those in the journal of an interrupted search."""


class _Counter:
    """A calculator of prices, which reads each record file once and counts the candidates of earlier cells."""

    def __init__(self) -> None:
        self._rates: dict[str, Rates] = {}
        self._searched: dict[tuple[str, str], _Searched] = {}
        self._planned: dict[tuple[str, str], int] = {}

    def price(self, step: Step[TuneStep], known: Known | None) -> CellPrice:
        options = step.options
        searches = step.unavailable is None and step.settings.tune != "never" and options.tune.ops != ()
        if known is None:
            return CellPrice(step.subject, options.target, None, searches)
        tasks = tuple(self._price(step, task, len(known.tasks)) for task in known.tasks)
        choice = tuple(each for graph in known.graphs for each in self._price_choice(step, graph)) if searches else ()
        return CellPrice(step.subject, options.target, tasks, searches, choice, options.tune.minutes)

    def _price(self, step: Step[TuneStep], task: TaskId, tasks: int) -> TaskPrice:
        options = step.options
        where = (options.target, task.key)
        if where not in self._searched:
            self._searched[where] = _read(Layout(step.root), options, task.key)
        known = self._searched[where]
        trials = 0 if step.unavailable is not None else self._count_trials(step, task, tasks)
        if trials <= 0:
            return TaskPrice(task, known.covered)
        self._planned[where] = self._planned.get(where, 0) + trials
        is_over = step.settings.tune == "missing" and not needs_search(known.file, task.name, options.tune, tasks)
        return TaskPrice(task, known.covered, trials, self._estimate(step, task.name, trials), lags=is_over)

    def _price_choice(self, step: Step[TuneStep], graph: Graph) -> tuple[TaskPrice, ...]:
        options = step.options
        choices = Choices({}) if step.settings.tune == "full" else _read_choices(Layout(step.root), options, graph)
        if not must_choose(options.tune, graph, choices):
            return ()
        ways = [name for name in options.tune.algorithms if name != DIRECT]
        tasks = [
            TaskId(f"{signature} by {name.replace('winograd', way)}", name, 1)
            for signature in choices.list_undecided(graph)
            for way in ways
            for name in WINOGRAD
            if is_wanted(name, options.tune)
        ]
        return tuple(self._price(step, task, len(tasks)) for task in tasks)

    def _estimate(self, step: Step[TuneStep], name: str, trials: int) -> Seconds | None:
        options = step.options
        where = place_of(options)
        if where not in self._rates:
            self._rates[where] = read_rates(Layout(step.root), options, available_cores())
        return self._rates[where].estimate(name, trials)

    def _count_trials(self, step: Step[TuneStep], task: TaskId, tasks: int) -> int:
        """Return the number of candidates that the step would measure for the Task. 0 or less means none."""
        options = step.options
        wanted = wanted_trials(options.tune, tasks)
        if step.settings.tune == "never":
            return 0
        if step.settings.tune == "full":
            return wanted if is_wanted(task.name, options.tune) else 0
        where = (options.target, task.key)
        known = self._searched[where]
        if not needs_search(known.file, task.name, options.tune, tasks):
            is_behind = lags(known.file, task.name, options.tune, Rules(options.rules, options.timed_on))
            return RULE_TRIALS - self._planned.get(where, 0) if is_behind else 0
        return wanted - known.measured - self._planned.get(where, 0)


def _read_choices(layout: Layout, options: TuneStep, graph: Graph) -> Choices:
    try:
        return read_choices(layout.records(options.target), graph, resolved_target(options))
    except TvmbuildError:
        return Choices({})  # the step will report the fault


def _read(layout: Layout, options: TuneStep, key: str) -> _Searched:
    """Return the state of the Task's search. A damaged file counts as absent, as it does for the search."""
    try:
        file = read_applicable(layout.records(options.target), key, resolved_target(options))
    except TvmbuildError:
        file = None
    journaled = max((entry.measured for entry in read_entries(layout.journal(options.target, key))), default=0)
    if file is None:
        return _Searched(measured=journaled)
    covered = elect(file, options.measured_on) is not None
    return _Searched(covered, replace(file, records=(), workload=""), max(file.most_searched, journaled))
