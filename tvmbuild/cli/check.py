"""The command `tvmbuild check MODEL.onnx …`: before a build, list impossible or slow parts, and the model's size."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from tvmbuild.base.processes import explain_failure, run_module
from tvmbuild.base.source_specs import MODEL_SUFFIXES
from tvmbuild.cli.arguments import add_input_arguments
from tvmbuild.cli.compile.model_words import explain_absence
from tvmbuild.cli.inspection import add_dump_arguments, prepare_folder
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.memory import format_size

HELP = "say which operators of a model cannot be built or will be slow, and how large the model is"
TIMEOUT_S = 1800


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "models",
        nargs="+",
        type=Path,
        metavar="MODEL.onnx",
        help=f"a model's file ({', '.join(MODEL_SUFFIXES)}); no project is needed",
    )
    add_input_arguments(parser)
    parser.add_argument("--cpu", help="LLVM's name of the CPU to build for (default: this machine's)")
    parser.add_argument("--json", action="store_true", help="print one object a model")
    add_dump_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings about each model. Return 1 if a model cannot be built, otherwise 0."""
    found = {path: _examine(path, args) for path in args.models}
    unknown = {name for name, _ in (*args.shapes, *args.values)}.difference(
        *(facts["names"] for facts in found.values())
    )
    if unknown and all(facts["names"] for facts in found.values()):
        raise TvmbuildError(f"no model has an input {', '.join(sorted(unknown))}", "correct --shape or --value")
    for path, facts in found.items():
        if args.json:
            print(json.dumps({"model": str(path), **facts}))
        else:
            print("\n".join([*describe(path, facts), *facts.get("passes", ())]))
    return 1 if any(facts["problem"] for facts in found.values()) else 0


def _examine(path: Path, args: argparse.Namespace) -> dict[str, Any]:
    if not path.is_file():
        raise explain_absence(path)
    dump = None if args.dump_ir is None else prepare_folder(args.dump_ir / path.stem)
    asked = {"path": str(path.absolute()), "cpu": args.cpu, "shapes": dict(args.shapes), "values": dict(args.values)}
    passes = {"dump": None if dump is None else str(dump), "passes": args.print_passes}
    request = json.dumps({**asked, **passes})
    try:
        done = run_module("tvmbuild.building.examine", request, timeout_s=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {"problem": f"it was not understood in {TIMEOUT_S} s", "hint": None, "names": []}
    if done.returncode != 0:
        problem = f"a bug in tvmbuild, or in a library that it uses: {explain_failure(done)}"
        return {"problem": problem, "hint": "please report it", "names": []}
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def describe(path: Path, facts: dict[str, Any]) -> list[str]:
    """Return the facts about a model as lines for people.

    For a model that cannot be built, they are the reason and the facts that are known nevertheless.
    """
    lines = [f"{path}: {'cannot be built' if facts['problem'] else 'can be built'}"]
    if facts["problem"]:
        lines += [f"  {facts['problem']}", *([f"  hint: {facts['hint']}"] if facts["hint"] else [])]
        if not facts.get("stand_ins"):
            return lines
        lines += [f"  besides, where {'; '.join(facts['stand_ins'])}: {each}" for each in facts["also"]]
    lines.append(f"  opset {facts['opset']}, {facts['nodes']} nodes; inputs {', '.join(facts['inputs']) or 'none'}")
    return lines if facts["also"] else [*lines, *_price(facts)]


def _price(facts: dict[str, Any]) -> list[str]:
    constants, workspace = (format_size(facts[part]) for part in ("constants", "workspace"))
    work, stands = f"{facts['flops'] / 1e9:.3g} GFLOP a run", "; ".join(facts["stand_ins"])
    return [
        f"  {facts['tasks']} Tasks, {work}, {constants} of constants, {workspace} of workspace"
        + (f", where {stands}" if stands else ""),
        *(f"  slow without records: {each}" for each in facts["slow"]),
        *(f"  {note}" for note in facts["notes"]),
        *(f"  its outputs fit {each}" for each in facts["proposals"]),
        *([f"  several sizes in one package: `{facts['sizes']}`"] if facts["sizes"] else []),
    ]
