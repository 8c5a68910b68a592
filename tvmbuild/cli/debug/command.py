"""The command `tvmbuild debug CELL`: name the first wrong place of a package, and the option that mends it."""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.device_specs import DeviceSpec, LocalDevice
from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.layout import Layout
from tvmbuild.base.processes import explain_failure, follow_module
from tvmbuild.base.specs import Tolerance
from tvmbuild.base.steps import BenchmarkStep, CompileStep, Settings, Step, ValidateStep, has_options
from tvmbuild.cli.debug.text import describe_finding
from tvmbuild.cli.run.command import named_file
from tvmbuild.debugging.finding import Finding, Request
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.project import find_root, load_plan

HELP = "name the first operator with wrong numbers, and the option that mends it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "Exit code: 0, the numbers are right; 1, a place is wrong."
    parser.add_argument("cell", metavar="CELL|PACKAGE", help="a cell such as net@cpu, or its PACKAGE.tar")
    parser.add_argument("--inputs", type=Path, metavar="FILE.npz", help="the inputs by name (default: the gate's)")
    parser.add_argument(
        "--input",
        dest="files",
        type=named_file,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="one input: .npy, or a .png or .jpg by the package's preprocessing; repeatable",
    )
    parser.add_argument("--all", dest="every", action="store_true", help="print and draw the errors of all places")
    parser.add_argument("--reduce", action="store_true", help="write the smallest model that fails")
    parser.set_defaults(fill=None, seed=0)


def run(args: argparse.Namespace) -> int:
    """Print the finding about a cell and return the exit code: 1 if a place is wrong."""
    plan = load_plan(find_root(Path.cwd()), Settings())
    step = _find_step(plan, args.cell)
    request = replace(_make_request(plan, step), every=args.every, reduce=args.reduce)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tvmbuild-debug-")))
        if args.inputs or args.files:
            request = replace(request, inputs=_write_inputs(args, request.package, folder))
        finding = _examine(request, folder)
    print("\n".join(describe_finding(finding, request)))
    return 1 if finding.suspect else 0


def _find_step(plan: Plan, word: str) -> Step[CompileStep]:
    """Return the step that compiles a cell, which ``word`` names itself or by its package.

    Raises TvmbuildError if no cell is meant, or if the package is not built.
    """
    steps = [step for step in plan.steps if has_options(step, CompileStep)]
    package = Path(word).absolute() if word.endswith(".tar") else None
    found = [each for each in steps if each.output("package") == package or each.subject == word]
    if not found and package is not None:
        raise TvmbuildError(
            f"{word} is the package of no cell of this project",
            "the original is needed: run this in the project that built it, or start one with `tvmbuild init`",
        )
    if not found:
        meant = suggest(find_nearest(word, [each.subject for each in steps]))
        raise TvmbuildError(f"no cell is called {word!r}", f"{meant}`tvmbuild plan` shows all of them.")
    step = found[0]
    files = (step.input("model"), step.input("schedule"), step.output("package"))
    if not all(path.is_file() for path in files):
        raise TvmbuildError(f"{step.subject} has no package yet", f"run `doit compile:{step.subject}` first")
    return step


def _make_request(plan: Plan, step: Step[CompileStep]) -> Request:
    """Return the request for a cell, with the device and the tolerance of the step that checks its numbers."""
    options = step.options
    target = PackageTarget(
        options.target, options.kind, options.attributes, options.host, options.glibc, options.precision
    )
    cell = step.subject
    request = Request(
        cell=cell,
        model=step.input("model"),
        package=step.output("package"),
        schedule=step.input("schedule"),
        reference=step.input("model").with_name("reference.npz"),
        target=target,
        tolerance=Tolerance(),
        folder=Layout(plan.root).debug(cell),
        link=options.link,
    )
    device: DeviceSpec | None
    for stage in ("validate", "benchmark"):
        check = plan.find(f"{stage}:{cell}")
        if check is not None and has_options(check, BenchmarkStep):
            device, threads = check.options.device, check.options.threads
        elif check is not None and has_options(check, ValidateStep):
            device, threads = (LocalDevice() if check.options.stand_in else None), available_cores()
        else:
            continue
        tolerance = check.options.tolerance
        return replace(request, reference=check.input("reference"), tolerance=tolerance, device=device, threads=threads)
    raise TvmbuildError(f"no step checks the numbers of {cell}")


def _write_inputs(args: argparse.Namespace, package: Path, folder: Path) -> Path:
    """Write the inputs that the user gives to an .npz and return its path."""
    from tvmbuild.cli.run.command import collect_inputs  # noqa: PLC0415
    from tvmbuild.package.archive import read_metadata  # noqa: PLC0415
    from tvmbuild.package.inputs import write_arrays  # noqa: PLC0415

    path = folder / "inputs.npz"
    write_arrays(path, collect_inputs(read_metadata(package), args))
    return path


def _examine(request: Request, folder: Path) -> Finding:
    path = folder / "request"
    path.write_bytes(pickle.dumps(request))
    done = follow_module("tvmbuild.debugging", path, show=lambda text: print(text, file=sys.stderr))
    if done.returncode != 0:
        raise TvmbuildError(f"{request.cell} cannot be examined: {explain_failure(done)}", "Please report it.")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "problem" in answer:
        raise TvmbuildError(answer["problem"], answer["hint"])
    return Finding.from_json(answer["finding"])
