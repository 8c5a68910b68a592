"""The command `tvmbuild debug CELL`: name the first wrong place of a package, and the option that fixes it."""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.files import write_text
from tvmbuild.base.processes import explain_failure, follow_module
from tvmbuild.base.steps import Settings
from tvmbuild.cli.compile.model_words import explain_absence
from tvmbuild.cli.debug.request import find_step, make_package_request, make_request
from tvmbuild.cli.debug.text import describe_finding, list_places, shorten
from tvmbuild.cli.inspection import prepare_folder
from tvmbuild.cli.run.command import add_input, collect_inputs
from tvmbuild.debugging.finding import PLACES, Finding, Request
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.inputs import write_arrays
from tvmbuild.planning.project import find_root, load_plan
from tvmbuild.report.debug_page import write_debug_page

HELP = "name the first operator with wrong numbers, and the option that fixes it"

UNEXAMINED = 2
"""The exit code if nothing could be examined, for example because the cell is unknown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "Exit code: 0, no number is wrong; 1, one is wrong; 2, nothing could be examined."
    parser.add_argument("cell", metavar="CELL|PACKAGE", help="a cell such as net@cpu, or its PACKAGE.tar")
    parser.add_argument("--inputs", type=Path, metavar="FILE.npz", help="the inputs by name (default: the gate's)")
    parser.add_argument("--model", type=Path, metavar="NET.onnx", help="a package's ONNX file, without its project")
    add_input(parser)
    parser.add_argument("--all", dest="every", action="store_true", help="print and draw the errors of all places")
    parser.add_argument("--reduce", action="store_true", help="write the smallest model that fails")
    parser.set_defaults(fill=None, seed=0, size=None)


def run(args: argparse.Namespace) -> int:
    """Print the finding about a cell and return the exit code: 1 if a number is wrong, else 0, or `UNEXAMINED`."""
    try:
        return _report(args)
    except TvmbuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return UNEXAMINED


def _report(args: argparse.Namespace) -> int:
    with TemporaryDirectory(prefix="tvmbuild-debug-") as name:
        folder = Path(name)
        request = replace(_make_request(args, folder), every=args.every, reduce=args.reduce)
        if args.inputs or args.files:
            request = replace(request, inputs=_write_inputs(args, request.package, folder))
        if request.every or request.reduce:
            prepare_folder(request.folder, "Start `tvmbuild debug` in another folder.")
        finding = _examine(request, folder)
    lines = describe_finding(finding, request)
    print("\n".join([*list_places(finding.places), *lines]))
    if args.every:
        page = (request.folder / PLACES).with_suffix(".html")
        write_text(page, write_debug_page(finding, lines))
        print(f"  all places: {shorten(page)}")
    return 1 if finding.is_wrong else 0


def _make_request(args: argparse.Namespace, folder: Path) -> Request:
    """Return the request for a cell of the project, or for a package and the ONNX file that it was built from."""
    is_package = args.cell.endswith(".tar")
    if args.model is not None:
        if not is_package:
            raise TvmbuildError("--model belongs to a package", "`tvmbuild debug PACKAGE.tar --model NET.onnx`")
        if not args.model.is_file():
            raise explain_absence(args.model)
        return make_package_request(Path(args.cell).absolute(), args.model, folder)
    try:
        root = find_root(Path.cwd())
    except TvmbuildError as error:
        if not is_package:
            raise
        raise TvmbuildError(
            f"{args.cell} has no ONNX model in it, and there is no project here that has it",
            "name the file that it was built from: `tvmbuild debug PACKAGE.tar --model NET.onnx`",
        ) from error
    plan = load_plan(root, Settings())
    return make_request(plan, find_step(plan, args.cell))


def _write_inputs(args: argparse.Namespace, package: Path, folder: Path) -> Path:
    """Write the inputs that the user gives to an .npz and return its path."""
    path = folder / "inputs.npz"
    info = read_metadata(package)
    if info.sizes is not None:
        info = info.at_size(info.sizes.functions[-1])  # the model that is examined is that of the largest size
    write_arrays(path, collect_inputs(info, args))
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
