"""`tvmbuild explain STEP`: why the step would run, and the steps that it waits for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from tvmbuild.doit_adapter.status import Status, list_statuses
from tvmbuild.doit_adapter.variables import split_words
from tvmbuild.errors import TvmbuildError
from tvmbuild.nearest import find_nearest, suggest
from tvmbuild.plan import Plan
from tvmbuild.project import find_root, load_plan
from tvmbuild.specs import Step

HELP = "say why a step would run: which input, option, tool or output changed, from what to what"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("step", help="a step, such as compile:mobilenet_v2@x86-64-v3")
    parser.add_argument("variables", nargs="*", metavar="tune=…|strict=…", help="as for a run")


def run(args: argparse.Namespace) -> int:
    """Print the reasons; return the exit code."""
    others, settings = split_words(args.variables)
    if others:
        raise TvmbuildError(f"{others[0]!r} is one step too many", "Name one step.")
    plan = load_plan(find_root(Path.cwd()), settings)
    step = plan.find(args.step)
    if step is None:
        meant = suggest(find_nearest(args.step, (each.id for each in plan.steps)))
        raise TvmbuildError(f"no step is called {args.step!r}", f"{meant}`tvmbuild plan` shows all of them.")
    statuses = {status.step.id: status for status in list_statuses(plan)}
    print("\n".join(_explain(statuses[step.id], [statuses[each.id] for each in _list_ancestors(plan, step)])))
    return 0


def _explain(status: Status, before: list[Status]) -> list[str]:
    lines = [f"{status.step.id}: {status.state}", *(f"  - {reason}" for reason in status.reasons)]
    running = [each for each in before if each.state == "would run"]
    if running:
        lines.append("before it:")
        for each in running:
            lines += [f"  {each.step.id}: {each.state}", *(f"    - {reason}" for reason in each.reasons)]
        if status.state == "up to date":
            lines.append("it runs too if one of them changes an input of it; with equal bytes it does not")
    inputs: Mapping[str, Path] = dict(status.step.inputs)
    lines += ["inputs:", *(f"  {role}: {path.relative_to(status.step.root)}" for role, path in inputs.items())]
    return lines


def _list_ancestors(plan: Plan, step: Step) -> list[Step]:
    """Return the steps that write what the step reads, and theirs, in the plan's order."""
    wanted = {path for _, path in step.inputs}
    found = []
    for candidate in reversed(plan.steps):
        if any(path in wanted for _, path in candidate.outputs):
            found.append(candidate)
            wanted |= {path for _, path in candidate.inputs}
    return found[::-1]
