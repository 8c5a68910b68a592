"""The command `tvmbuild bench`: time built cells again or any two packages, and compare with earlier times."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from tvmbuild.base.did_you_mean import find_nearest, is_pattern, suggest
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.base.specs import BenchmarkOptions
from tvmbuild.base.steps import BenchmarkStep, Settings, Step, has_options
from tvmbuild.base.wording import count
from tvmbuild.benchmarking.agreement import check_agreement
from tvmbuild.benchmarking.results import Result
from tvmbuild.cli.arguments import named_values, positive
from tvmbuild.cli.bench.since import compare_since
from tvmbuild.cli.bench.table import print_error, print_result
from tvmbuild.devices.machine_state import BUSY_SHARE
from tvmbuild.devices.table import device_kind
from tvmbuild.devices.watch import Watch
from tvmbuild.engine.display import show_progress
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.project import find_root, load_plan

if TYPE_CHECKING:
    from tvmbuild.benchmarking.contest import Trial  # imports ONNX Runtime, which would delay `tvmbuild --help`

HELP = "time built cells or packages in turns with their baselines, or compare with an earlier time"
QUIET_CHECK_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "what", nargs="*", metavar="CELL|PACKAGE", help="cells such as net@cpu, globs of them, or one PACKAGE.tar"
    )
    parser.add_argument(
        "--vs", action="append", default=[], type=Path, metavar="PACKAGE", help="also time this package"
    )
    parser.add_argument(
        "--since",
        metavar="REV|FILE",
        help="time nothing; compare the newest benchmarks with those at a git revision, or in a history.jsonl or "
        "result.json; exit with 1 if a cell became slower",
    )
    parser.add_argument("--repeat", type=positive, help="samples (default: the target's `benchmark:`)")
    parser.add_argument("--number", type=positive, help="calls in one sample")
    parser.add_argument("--threads", type=positive, help="threads of all contenders")
    parser.add_argument(
        "--size", type=named_values, metavar="T=64", help="the size of a model with `sizes` (default: the largest)"
    )
    parser.add_argument("--strict", action="store_true", help="refuse to measure on a busy machine")


def run(args: argparse.Namespace) -> int:
    """Run the command and return the exit code: 1 if a cell failed or became slower."""
    packages = [word for word in args.what if word.endswith(".tar")]
    if packages:
        return _bench_package(args, packages)
    root = find_root(Path.cwd())
    plan = load_plan(root, Settings())
    if args.since is not None:
        given = [f"--{name}" for name in ("vs", "repeat", "number", "threads", "size", "strict") if getattr(args, name)]
        if given:
            raise TvmbuildError(f"--since times nothing, so {given[0]} has no effect", "leave it out")
        return compare_since(root, _list_cells(plan, args.what), args.since)
    done = [_bench_cell(step, args) for step in choose_steps(plan, args.what)]
    return 0 if all(done) else 1


def _bench_cell(step: Step[BenchmarkStep], args: argparse.Namespace) -> bool:
    """Time the cell, and print and store the result. Return False if an error was printed; other cells continue."""
    from tvmbuild.stages.benchmark import keep_result, make_trial, make_trial_at  # noqa: PLC0415 - as above

    try:
        trial = make_trial_at(step, args.size) if args.size else make_trial(step)
        trial = replace(trial, packages=tuple(args.vs))
        result = _measure(_with_options(trial, args), strict=args.strict)
        if trial.subject != step.subject:
            print("not added to the history, whose benchmarks are of the largest size")
        elif result.threads == trial.threads:
            keep_result(step, result)
        else:
            print(f"not added to the history, whose benchmarks have {count(trial.threads, 'thread')}")
        check_agreement(result.accuracy, step.options.accuracy)
    except TvmbuildError as error:
        print_error(step.subject, error)
        return False
    return True


def _bench_package(args: argparse.Namespace, packages: Sequence[str]) -> int:
    from tvmbuild.benchmarking.contest import make_package_trial  # noqa: PLC0415 - as above

    if args.since is not None:
        raise TvmbuildError("--since compares cells, and packages have no history", "leave it out, or name cells")
    if len(args.what) > 1:
        raise TvmbuildError(
            "`tvmbuild bench` times one package at a time", f"`tvmbuild bench {packages[0]} --vs OTHER.tar`"
        )
    if not args.vs:
        raise TvmbuildError(
            f"{packages[0]} has no package to be compared with",
            "name another package of the model with `--vs OTHER.tar`",
        )
    with tempfile.TemporaryDirectory(prefix="tvmbuild-bench-") as folder:
        with show_progress(packages[0]) as show, progress_shown_by(show):
            trial = make_package_trial(
                Path(packages[0]), tuple(args.vs), Path(folder), threads=args.threads, size=args.size
            )
        _measure(_with_options(trial, args), strict=args.strict)
    return 0


def _with_options(trial: Trial, args: argparse.Namespace) -> Trial:
    asked = {name: value for name in ("repeat", "number") if (value := getattr(args, name)) is not None}
    options: BenchmarkOptions = replace(trial.options, **asked)
    return replace(trial, options=options, threads=args.threads or trial.threads)


def _measure(trial: Trial, *, strict: bool) -> Result:
    """Run the benchmark task, print its result and return it.

    With ``strict``, raise TvmbuildError if the machine is busy before or after.
    """
    from tvmbuild.benchmarking.contest import run_contest  # noqa: PLC0415 - as above

    if strict:
        watch = Watch()
        time.sleep(QUIET_CHECK_S)
        _refuse_busy(watch.read().others)
    with show_progress(trial.subject) as show, progress_shown_by(show):
        result = run_contest(trial)
    print_result(result)
    if strict:
        _refuse_busy(result.machine.others)
    return result


def _refuse_busy(others: float | None) -> None:
    if others is not None and others > BUSY_SHARE:
        raise TvmbuildError(
            f"the machine is busy: other programs take {others:.0%} of the cores' time",
            "stop them, or leave out --strict",
        )


def choose_steps(plan: Plan, words: Sequence[str]) -> list[Step[BenchmarkStep]]:
    """Return the benchmark steps of the cells that ``words`` name, or of all cells without words.

    Cells that are not built, or cannot run here, are left out unless a word names them in full. Raises TvmbuildError
    for a word that matches no cell, for a cell named in full that is not built or cannot run here, and if no cell is
    left.
    """
    steps = [step for step in plan.steps if has_options(step, BenchmarkStep)]
    chosen = set(_list_cells(plan, words))
    named = {word for word in words if not is_pattern(word)}
    ready = []
    for step in (step for step in steps if step.subject in chosen):
        problem = _explain_not_ready(step)
        if problem is None:
            ready.append(step)
        elif step.subject in named:
            raise problem
    if not ready:
        raise TvmbuildError("no cell is built that can run here", "`tvmbuild plan` says what there is to do")
    return ready


def _explain_not_ready(step: Step[BenchmarkStep]) -> TvmbuildError | None:
    if step.unavailable is not None:
        return TvmbuildError(f"{step.subject} cannot be benchmarked here: {step.unavailable}")
    no_times = device_kind(step.options.device).no_times
    if no_times is not None:
        return TvmbuildError(f"{step.subject} {no_times}")
    if not all(path.exists() for path in step.inputs.values()):
        return TvmbuildError(f"{step.subject} is not built", f"`tvmbuild compile:{step.subject}` builds it")
    return None


def _list_cells(plan: Plan, words: Sequence[str]) -> list[str]:
    """Return the cells that the words or globs name, or all cells without words, in the plan's order.

    Raises TvmbuildError for a word that matches no cell.
    """
    cells = [step.subject for step in plan.steps if step.stage == "benchmark"]
    for word in words:
        if not any(fnmatchcase(cell, word) for cell in cells):
            near = suggest(find_nearest(word, cells))
            raise TvmbuildError(f"there is no cell {word}", f"{near}`tvmbuild plan` shows all of them.")
    return [cell for cell in cells if not words or any(fnmatchcase(cell, word) for word in words)]
