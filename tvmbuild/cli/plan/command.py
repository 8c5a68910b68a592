"""The command `tvmbuild plan`: list the steps that would run, the reasons, and the cost of tuning. It runs nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from tvmbuild.base.console import make_console
from tvmbuild.base.did_you_mean import find_nearest_pattern, suggest
from tvmbuild.base.files import pretty_json
from tvmbuild.base.pace import round_duration
from tvmbuild.base.steps import SimplifyStep, has_options
from tvmbuild.base.wording import count
from tvmbuild.cli.plan.as_json import make_json
from tvmbuild.cli.planned import Planned, plan_work
from tvmbuild.doit_adapter.variables import split_words
from tvmbuild.engine.open_inputs import foresee_inputs, recall_batch
from tvmbuild.engine.status import Status
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.memory import format_size
from tvmbuild.planning.price import CellPrice, TotalPrice
from tvmbuild.planning.project import find_root, load_plan
from tvmbuild.records.selection import RULE_TRIALS
from tvmbuild.tuning.rates import NO_TIME, Seconds

HELP = "show what would run and why, and what tuning would cost, before anything runs"
COLOURS = {"up to date": "green", "would run": "yellow", "may run": "cyan", "unavailable": "dim"}
UNKNOWN = "?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="PATTERN",
        help="steps, such as 'compile:*@pi4', shown with the steps that they need (default: all); tune=…, strict=…",
    )
    parser.add_argument("--json", action="store_true", help="print the plan as JSON, with a matrix of cells for CI")


def run(args: argparse.Namespace) -> int:
    """Print the plan; return the exit code."""
    patterns, settings = split_words(args.words)
    plan = load_plan(find_root(Path.cwd()), settings)
    if not plan.steps:
        raise TvmbuildError("there is nothing to build", "Add a model to models.yaml, or enable one.")
    for pattern in patterns:
        if not any(fnmatchcase(step.id, pattern) for step in plan.steps):
            meant = suggest(find_nearest_pattern(pattern, (step.id for step in plan.steps)))
            raise TvmbuildError(f"no step matches {pattern!r}", f"{meant}`tvmbuild plan` shows all of them.")
    chosen = [step for step in plan.steps if not patterns or any(fnmatchcase(step.id, each) for each in patterns)]
    planned = plan_work(plan, chosen)
    if args.json:
        print(pretty_json(make_json(planned)), end="")
    else:
        _print(planned)
    return 0


def _print(planned: Planned) -> None:
    console = make_console()
    width = max(len(status.step.id) for status in planned.statuses)
    # One print, because a thousand cells have thousands of lines.
    console.print(Text("\n").join(_describe(status, width) for status in planned.statuses), soft_wrap=True)
    console.print()
    here = {status.step.subject for status in planned.statuses if status.state != "unavailable"}
    prices = [price for price in planned.prices if price.cell in here]
    if prices:
        console.print(_make_table(prices))
        for note in _list_notes(prices):
            console.print(note, style="dim", soft_wrap=True)
    for cell, memory in planned.memory.items():
        limit = planned.memory_limits.get(cell)
        console.print(f"{cell} takes {format_size(memory.total)} of memory: {memory.describe()}", soft_wrap=True)
        if limit is not None and (excess := memory.explain_excess(limit)):
            console.print(f"the package of {cell} takes {excess}", style="red", soft_wrap=True)
    for status in planned.statuses:
        for note in _list_input_notes(status):
            console.print(note, soft_wrap=True)
    console.print(summarise(planned), soft_wrap=True)


def _list_notes(prices: Sequence[CellPrice]) -> list[str]:
    notes = []
    if any(price.tasks is None for price in prices):
        notes.append(f"{UNKNOWN}: Tasks are not known before simplify and tune have run")
    if any(price.trials and price.seconds is None for price in prices):
        notes.append(
            f"{UNKNOWN} minutes: this project has searched nothing for this kind of target on this machine yet"
        )
    if lagging := sum(price.lagging for price in prices):
        notes.append(f"{count(lagging, 'Task')} searched before a rule changed: at most {RULE_TRIALS} candidates each")
    return notes


def _list_input_notes(status: Status) -> list[str]:
    """Return notes on the sizes that simplify has assumed, or would assume, for a model's open inputs."""
    step = status.step
    return foresee_inputs(step) if has_options(step, SimplifyStep) and status.reasons else recall_batch(step)


def _describe(status: Status, width: int) -> Text:
    line = Text(f"{status.state:<11}", style=COLOURS[status.state])
    line.append(f"  {status.step.id:<{width}}", style="default")
    line.append(f"  {'; '.join(status.reasons)}", style="dim")
    line.rstrip()
    return line


def _make_table(prices: Sequence[CellPrice]) -> Table:
    table = Table(title="tuning", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("cell")
    for name in ("tasks", "covered", "to tune", "trials", "minutes"):
        table.add_column(name, justify="right")
    for price in prices:
        numbers = (None if price.tasks is None else len(price.all_tasks), price.covered, price.to_tune, price.trials)
        shown = [UNKNOWN if number is None else str(number) for number in numbers]
        table.add_row(price.cell, *shown, _show_minutes(price.seconds))
    return table


def _show_minutes(seconds: Seconds | None) -> str:
    if seconds is None:
        return UNKNOWN
    return f"{seconds.low / 60:.1f} to {seconds.high / 60:.1f}" if seconds.high else "0"


def summarise(planned: Planned) -> str:
    """Return the plan in one line: the numbers of steps, cells, Tasks and trials, and the time."""
    states = [status.state for status in planned.statuses]
    running, following, unavailable = (states.count(state) for state in ("would run", "may run", "unavailable"))
    parts = [f"{count(running, 'step')} to run"]
    if following:
        parts[0] += f" and {following} that may follow"
    if unavailable:
        parts.append(f"{unavailable} unavailable here")
    if planned.prices:
        parts += [count(len(planned.prices), "cell"), *_describe_total(planned.total, planned.prices)]
    return f"Plan: {', '.join(parts)}"


def _describe_total(total: TotalPrice, prices: Sequence[CellPrice]) -> list[str]:
    unknown = sum(price.to_tune is None for price in prices)
    if unknown and not total.known_tasks:
        return ["Tasks not known yet"]
    of = f" of {total.known_tasks}" if total.known_tasks else ""
    parts = [f"{total.to_tune}{of} Task{'' if total.known_tasks == 1 else 's'} to tune"]
    if unknown:
        parts[0] += f" and those of {count(unknown, 'cell')} not known yet"
    if total.trials:
        parts += [count(total.trials, "trial"), describe_seconds(total.seconds, total.known_seconds)]
    return parts


def describe_seconds(seconds: Seconds | None, at_least: Seconds = NO_TIME) -> str:
    """Return the range of a duration in words: `6 to 14 min`.

    If ``seconds`` is None, because it is not known, return the lower bound ``at_least``.
    """
    if seconds is None:
        return f"at least {' '.join(round_duration(at_least.low))}" if at_least.low else f"{UNKNOWN} min"
    (low, unit), (high, of) = round_duration(seconds.low), round_duration(seconds.high)
    if unit != of:
        return f"{low} {unit} to {high} {of}"
    return f"about {high} {of}" if low == high else f"{low} to {high} {of}"
