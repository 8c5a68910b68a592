"""The command `tvmbuild compile net.onnx -o net.tar`: one model in, one package out, without a project."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from tvmbuild.base.attributes import Precision
from tvmbuild.base.files import publish
from tvmbuild.base.layout import Layout
from tvmbuild.base.source_specs import MODEL_SUFFIXES
from tvmbuild.base.steps import AnyStep, Settings
from tvmbuild.building.examine import say_without_project
from tvmbuild.cli.compile.model_words import add_model_arguments, find_model
from tvmbuild.cli.compile.project import open_project
from tvmbuild.cli.compile.target_words import FORMS, TargetWords, find_target
from tvmbuild.cli.inspection import add_dump_arguments, show_passes
from tvmbuild.cli.records.common import hold_records
from tvmbuild.doit_adapter.main import run_doit
from tvmbuild.doit_adapter.manner import Manner
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.project import load_plan
from tvmbuild.records.folders import find_records, list_record_files

HELP = "make one package from one model, without a project"
OWN_OPTIONS = ("-o", "-h")


def is_stage(arguments: Sequence[str]) -> bool:
    """Return whether `tvmbuild compile …` means a project's stage of that name, because no argument names a model."""
    return not any(
        word.startswith("--") or word in OWN_OPTIONS or Path(word).suffix in MODEL_SUFFIXES or Path(word).is_file()
        for word in arguments
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "In a project, `tvmbuild compile` alone builds the packages of all cells."
    parser.add_argument(
        "model", metavar="MODEL", help=f"a file, {', '.join(MODEL_SUFFIXES)}, or hf://owner/repository/FILE"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.tar",
        help="the package's file; default: MODEL-TARGET.tar in this folder",
    )
    add_target_argument(parser)
    add_model_arguments(parser)
    parser.add_argument(
        "--tune",
        type=_minutes,
        metavar="MINUTES",
        help="search for faster schedules for that many minutes; default: no search",
    )
    parser.add_argument("--records", type=Path, metavar="DIR", help="records to use; --tune adds to them")
    add_dump_arguments(parser)


def add_target_argument(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the target and its precision."""
    parser.add_argument("--target", metavar="TARGET", help=f"{FORMS}; default: this machine's CPU")
    parser.add_argument(
        "--precision", choices=get_args(Precision), help="the precision in which float32 models are computed"
    )


def name_target(args: argparse.Namespace) -> TargetWords:
    """Return the target that ``--target`` and ``--precision`` describe, by default this machine's CPU."""
    target = find_target(args.target, Path.cwd())
    return replace(target, data={**target.data, "precision": args.precision}) if args.precision else target


def run(args: argparse.Namespace) -> int:
    """Build the package and write it to the requested place. Return the exit code."""
    model, target = find_model(args.model, args), name_target(args)
    output = _check_output(args.output or Path(f"{model.name}-{target.name}.tar"))
    records = _find_records(args, target)
    if args.tune is not None:
        target = replace(target, data={**target.data, "tune": {**target.data.get("tune", {}), "minutes": args.tune}})
    root = open_project(model, target, records)
    settings = Settings(tune="never" if args.tune is None else "missing")
    with _said_without_project(root):
        plan = load_plan(root, settings)
    steps = _list_steps(plan, f"{model.name}@{target.name}", is_tuned=args.tune is not None)
    with _inside(root):
        words = ["run", *(step.id for step in steps), f"tune={settings.tune}"]
        code = run_doit(words, (), manner=Manner(long=True, places=False, reword=lambda text: _reword(text, root)))
    if code:
        return code
    if args.dump_ir or args.print_passes:
        _show_passes(plan, f"{model.name}@{target.name}", args)
    package = Layout(root).package(model.name, target.name)
    _publish(package, output)
    print(f"wrote {args.output or output.name} ({output.stat().st_size / 1e6:.1f} MB)")
    if args.tune is not None and records is None:
        print(f"its records are in {root / 'records'}; --records DIR keeps them elsewhere", file=sys.stderr)
    return 0


def _show_passes(plan: Plan, cell: str, args: argparse.Namespace) -> None:
    passes = show_passes(plan, cell, args.dump_ir)
    if args.print_passes:
        print("\n".join(passes))
    if args.dump_ir:
        print(f"wrote the module after each pass to {args.dump_ir}")


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of minutes")
    return value


def _check_output(path: Path) -> Path:
    """Return the absolute path of the output. Before anything is built, raise TvmbuildError if it cannot be written."""
    if path.is_dir():
        raise TvmbuildError(f"{path} is a folder", f"Name a file: -o {path / 'net.tar'}.")
    if not path.absolute().parent.is_dir():
        raise TvmbuildError(f"there is no folder {path.parent}", f"`mkdir -p {path.parent}`, or correct -o.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise TvmbuildError(f"cannot write to {path.absolute().parent}", "Name another file by -o.")
    return path.absolute()


def _find_records(args: argparse.Namespace, target: TargetWords) -> Path | None:
    """Return the folder that has a folder of records for each target, or None for the generated project's own.

    With `--tune` the folder is made. Raises TvmbuildError if it does not exist otherwise, or has another target's
    records.
    """
    given = args.records
    if given is None:
        given = Path("records") if target.of_project else None
        if given is None or not (given.is_dir() or args.tune is not None):
            return None
    elif not given.is_dir() and args.tune is None:
        raise TvmbuildError(f"there is no folder {given}", "Correct --records; with --tune it is made.")
    try:
        given.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TvmbuildError(f"cannot make {given}: {error.strerror}", "Correct --records.") from error
    if args.tune is not None:
        hold_records(given)
    folder = find_records(given.absolute())
    files = list_record_files(folder)
    if files and files[0].parent == folder and folder.name != target.name:
        raise TvmbuildError(
            f"{given} holds the records of one target, {folder.name}",
            f"Call that folder {target.name}.",
        )
    return folder.parent if files and files[0].parent == folder else folder


@contextlib.contextmanager
def _said_without_project(root: Path) -> Iterator[None]:
    """Reword errors in the generated YAML files, which the user did not write, as errors of the command line."""
    try:
        yield
    except TvmbuildError as error:
        message = re.sub(r"^(models|targets)\.yaml:\d+:\d+: \w+\.[^.:]+\.?", "", error.message, flags=re.MULTILINE)
        raise TvmbuildError(_reword(message, root), "Correct the option; --help lists them all.") from error


def _reword(text: str, root: Path) -> str:
    """Reword a step's failure for a user without models.yaml, with paths as the user gave them."""
    text = re.sub(rf"{re.escape(str(root))}(?:/\.\.)+[^\s:,;]*", lambda found: os.path.normpath(found[0]), text)
    message, separator, hint = text.partition("\n  hint: ")
    said = say_without_project(TvmbuildError(message, hint or None))
    return f"{said.message}\n  hint: {said.hint}" if separator and said.hint else said.message


def _list_steps(plan: Plan, cell: str, *, is_tuned: bool) -> list[AnyStep]:
    """Return the cell's compile step, and the steps of its checks that can run here.

    Raises TvmbuildError if the package cannot be built here, or if ``is_tuned`` and nothing can be measured here.
    """
    steps = {step.stage: step for step in plan.steps if step.subject == cell}
    build, tune = steps["compile"], steps["tune"]
    if build.unavailable is not None:
        raise TvmbuildError(f"the package cannot be built here: {build.unavailable}")
    if is_tuned and tune.settings.tune == "never":
        why = steps["benchmark"].unavailable or "its device is not asked"
        raise TvmbuildError(f"nothing can be measured for {cell.rpartition('@')[2]} here: {why}", "Leave out --tune.")
    checks = (steps[name] for name in ("validate", "benchmark") if name in steps and steps[name].unavailable is None)
    return [build, *checks]


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _publish(package: Path, output: Path) -> None:
    try:
        with publish(output) as temporary:
            shutil.copyfile(package, temporary)
    except OSError as error:
        raise TvmbuildError(
            f"cannot write {output}: {error.strerror}", f"Make room; the package is {package}."
        ) from error
