"""A plan with each step's status and each cell's price, for `plan` and `explain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmbuild.base.steps import AnyStep, CompileStep, TuneStep, has_options, list_sizes
from tvmbuild.doit_adapter.state import open_state
from tvmbuild.engine.status import Status, list_statuses
from tvmbuild.package.memory import Memory, find_memory
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.price import CellPrice, Known, TotalPrice, price_cells, total_price
from tvmbuild.records.choices import read_graph
from tvmbuild.records.selection import read_tasks
from tvmbuild.report.cells import peek_metadata


@dataclass(frozen=True)
class Planned:
    """The statuses of the chosen steps and of all steps that they need, in the plan's order, and the cells' prices."""

    statuses: tuple[Status, ...]
    prices: tuple[CellPrice, ...]

    @property
    def memory(self) -> dict[str, Memory]:
        """Return cell → the memory of its package, of the cells that are built, whether or not they are up to date."""
        found = {}
        for status in self.statuses:
            info = peek_metadata(status.step.output("package")) if status.step.stage == "compile" else None
            if info is not None:
                found[status.step.subject] = find_memory(info)
        return found

    @property
    def memory_limits(self) -> dict[str, int]:
        """Return cell → the most memory that its package may take, of the cells with a limit."""
        steps = [status.step for status in self.statuses]
        return {
            each.subject: each.options.memory
            for each in steps
            if has_options(each, CompileStep) and each.options.memory
        }

    @property
    def total(self) -> TotalPrice:
        """Return the price of all cells together."""
        return total_price(self.prices)


def plan_work(plan: Plan, chosen: Sequence[AnyStep]) -> Planned:
    """Return the statuses and prices of a run of the chosen steps. Nothing is run or written."""
    wanted = {step.id for step in (*chosen, *list_ancestors(plan, chosen))}
    part = Plan(plan.root, tuple(step for step in plan.steps if step.id in wanted))
    statuses = tuple(list_statuses(part, open_state(plan.root).recall))
    return Planned(statuses, price_statuses(statuses))


def price_statuses(statuses: Sequence[Status]) -> tuple[CellPrice, ...]:
    """Return the price of tuning for each tune step in ``statuses``."""
    steps = ((status, status.step) for status in statuses)
    return price_cells((step, _read_tasks(status)) for status, step in steps if has_options(step, TuneStep))


def list_ancestors(plan: Plan, steps: Sequence[AnyStep]) -> list[AnyStep]:
    """Return the steps that write the inputs of ``steps``, and their own ancestors, in the plan's order."""
    wanted = {path for step in steps for path in step.inputs.values()}
    found = []
    for candidate in reversed(plan.steps):
        if any(path in wanted for path in candidate.outputs.values()):
            found.append(candidate)
            wanted |= set(candidate.inputs.values())
    return found[::-1]


def _read_tasks(status: Status) -> Known | None:
    if not status.knows_tasks:
        return None
    step = status.step
    roles = ("tasks", *(f"tasks {size}" for size in list_sizes(step, "tasks")))
    try:
        graphs = {graph.digest: graph for role in roles if (graph := read_graph(step.output(role))) is not None}
        return Known(read_tasks(step.output("tasks")), tuple(graphs.values()))
    except (OSError, ValueError, KeyError, TypeError):
        return None
