"""The command `tvmbuild explain STEP`: why the step would run, which steps it waits for, which Tasks it searches."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.operator_losses import OperatorLoss, read_losses
from tvmbuild.base.steps import AnyStep
from tvmbuild.base.wording import count
from tvmbuild.cli.inspection import list_kernels
from tvmbuild.cli.plan.command import describe_seconds
from tvmbuild.cli.planned import Planned, plan_work
from tvmbuild.doit_adapter.variables import split_words
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.price import CellPrice
from tvmbuild.planning.project import find_root, load_plan
from tvmbuild.report.cells import collect_cells
from tvmbuild.report.kept import describe_kept

HELP = "say why a step would run: which input, option, tool or output changed, from what to what"
_SHOWN = 10
"""The number of a quantised model's operators that are listed without `--all`."""
_TITLE = "operators by signal to noise in dB, the worst first (40 dB are an error of 1 %, each 6 dB less double it):"
_COLUMNS = ("weights", "activations", "with all before", "operator")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "step",
        help="a step, such as compile:mobilenet_v2@x86-64-v3; or `kernel`, with MODEL@TARGET and part of an "
        "operator's name: which record or rule made each kernel's schedule, and why other rules did not",
    )
    parser.add_argument(
        "--all", dest="every", action="store_true", help="with quantize:MODEL: the loss of all operators"
    )
    parser.add_argument("variables", nargs="*", metavar="tune=…|strict=…", help="as for a run")


def run(args: argparse.Namespace) -> int:
    """Print why the step would run, or the origin of kernels' schedules. Return the exit code."""
    others, settings = split_words(args.variables)
    if args.step == "kernel":
        if args.every:
            raise TvmbuildError("--all lists the operators of a quantised model, not kernels", "leave --all out")
        return explain_kernels(load_plan(find_root(Path.cwd()), settings), others)
    if others:
        raise TvmbuildError(f"{others[0]!r} is a second step", "Name one step.")
    plan = load_plan(find_root(Path.cwd()), settings)
    step = plan.find(args.step)
    if step is None:
        meant = suggest(find_nearest(args.step, (each.id for each in plan.steps)))
        raise TvmbuildError(f"no step is called {args.step!r}", f"{meant}`tvmbuild plan` shows all of them.")
    if args.every and step.stage != "quantize":
        raise TvmbuildError(
            f"--all lists the operators of a quantised model, and {step.id} quantises none",
            "`tvmbuild explain quantize:MODEL --all`",
        )
    told = [*_explain(plan_work(plan, [step]), step), *_list_kept(plan, step), *_list_losses(step, every=args.every)]
    print("\n".join(told))
    return 0


def _explain(planned: Planned, step: AnyStep) -> list[str]:
    statuses = {status.step.id: status for status in planned.statuses}
    status = statuses.pop(step.id)
    lines = [f"{step.id}: {status.state}", *(f"  - {reason}" for reason in status.reasons)]
    running = [each for each in statuses.values() if each.state in {"would run", "may run"}]
    if running:
        lines.append("before it:")
        for each in running:
            lines += [f"  {each.step.id}: {each.state}", *(f"    - {reason}" for reason in each.reasons)]
        if status.state == "may run":
            lines.append("it also runs if one of them changes its inputs, and not if their bytes stay equal")
    if step.stage == "tune" and status.state != "unavailable":
        lines += _list_tasks(next(price for price in planned.prices if price.cell == step.subject))
    lines += ["inputs:", *(f"  {role}: {path.relative_to(step.root)}" for role, path in step.inputs.items())]
    return lines


def _list_kept(plan: Plan, step: AnyStep) -> list[str]:
    """Return lines for the operators that the step's search keeps in floats, with their cost in each cell."""
    if step.stage not in {"quantize", "keep"}:
        return []
    cells = collect_cells(step.root, plan.steps)
    told = describe_kept([cell for cell in cells if step.subject in {cell.model, cell.name}])
    return ["operators in floats:", *(f"  {each}" for each in told)] if told else []


def _list_losses(step: AnyStep, *, every: bool) -> list[str]:
    """Return lines for doubts about the calibration, and for the operators that quantisation harms most, or for all.

    There are none for other steps, and before the step has run.

    The errors of weights and activations are those of their own rounding. The third column also has the errors of all
    operators before.
    """
    if step.stage != "quantize":
        return []
    try:
        info = json.loads(step.output("info").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    losses, doubts = read_losses(info), [str(each) for each in info.get("doubts", ())]
    lines = ["doubts about the calibration:", *(f"  {each}" for each in doubts)] if doubts else []
    if not losses:
        return lines
    shown = losses if every else losses[:_SHOWN]
    left = len(losses) - len(shown)
    more = [f"  and {left} more (--all)"] if left else []
    return [*lines, _TITLE, *_format_table(shown), *more]


def _format_table(losses: Sequence[OperatorLoss]) -> Iterator[str]:
    widths = [len(each) for each in _COLUMNS[:-1]]
    rows = [_COLUMNS, *(_describe_loss(each) for each in losses)]
    for *numbers, name in rows:
        yield "  " + "  ".join(text.rjust(width) for text, width in zip(numbers, widths, strict=True)) + f"  {name}"


def _describe_loss(loss: OperatorLoss) -> tuple[str, ...]:
    ratios = ("-" if each is None else f"{each:.1f}" for each in (loss.weight, loss.rounding, loss.whole))
    return (*ratios, f"{loss.node} ({loss.operator})")


def _list_tasks(price: CellPrice) -> list[str]:
    """Return lines for the Tasks that tune would search, the Task with the most trials first."""
    if price.tasks is None:
        searched = "not known before simplify and tune have run" if price.searches else "none"
        return [f"Tasks to tune: {searched}"]
    chosen = sorted(
        (each for each in price.all_tasks if each.trials),
        key=lambda each: (-each.trials, each.task.name, each.task.key),
    )
    if not chosen:
        return [f"Tasks to tune: none of {len(price.all_tasks)}, {price.covered} have a record"]
    total = f"{count(price.trials or 0, 'trial')}, {describe_seconds(price.seconds)}"
    lines = [f"Tasks to tune: {len(chosen)} of {len(price.all_tasks)}, {total}"]
    for each in chosen:
        had = ", what newer rules would do" if each.lags else "" if each.covered else ", no record yet"
        cost = f"{count(each.trials, 'trial')}, {describe_seconds(each.seconds)}"
        lines.append(f"  {each.task.name} ({each.task.key}): {cost}{had}")
    return lines


# The command `tvmbuild explain kernel MODEL@TARGET [OPERATOR]`: the record or rule behind each kernel's schedule.

_ORIGINS = {
    "record": "a record",
    "given": "the loops that it was written with",
}


def explain_kernels(plan: Plan, words: Sequence[str]) -> int:
    """Print the record or rule behind the schedule of each kernel of a cell.

    ``words`` are the cell and, optionally, part of an operator's name, which selects kernels by their names. Raises
    TvmbuildError if no kernel matches.
    """
    if not 1 <= len(words) <= 2:
        raise TvmbuildError(
            "`tvmbuild explain kernel` needs a cell", "`tvmbuild explain kernel MODEL@TARGET [OPERATOR]`."
        )
    cell, *operators = words
    kernels = list_kernels(plan, cell)
    chosen = [each for each in kernels if all(word.lower() in each["name"].lower() for word in operators)]
    if not chosen:
        names = sorted({each["name"] for each in kernels})
        raise TvmbuildError(f"no kernel of {cell} has {operators[0]!r} in its name", f"It has {', '.join(names)}.")
    for kernel in chosen:
        print("\n".join(_describe(kernel)))
    return 0


def _describe(kernel: dict[str, Any]) -> Iterator[str]:
    took = [each for each in kernel["attempts"] if each["refused"] is None]
    origin = _ORIGINS.get(kernel["origin"])
    if origin is None:
        rules = list(dict.fromkeys(map(_name, took)))
        origin = f"the rule {' and '.join(rules)}" if rules else "no rule: its loops are plain"
    yield f"{kernel['name']} ({kernel['key']}, {count(kernel['calls'], 'call')}): {origin}"
    refused = (each for each in kernel["attempts"] if each["refused"] is not None)
    yield from dict.fromkeys(f"  not {_name(each)}: {each['refused']}" for each in refused)


def _name(attempt: dict[str, Any]) -> str:
    block = attempt["block"]
    return f"{attempt['rule']} ({block})" if block else str(attempt["rule"])
