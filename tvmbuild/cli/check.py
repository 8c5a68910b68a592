"""The command `tvmbuild check MODEL.onnx …`: before a build, list impossible or slow parts, and the model's size."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvmbuild.base.byte_sizes import SIZE, read_size
from tvmbuild.base.files import write_text
from tvmbuild.base.processes import explain_failure, run_module
from tvmbuild.base.source_specs import MODEL_SUFFIXES
from tvmbuild.base.wording import count
from tvmbuild.cli.arguments import add_input_arguments
from tvmbuild.cli.compile.model_words import explain_absence
from tvmbuild.cli.inspection import add_dump_arguments, prepare_folder
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.allocations import read_largest
from tvmbuild.package.memory import Memory, format_size

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
    parser.add_argument(
        "--memory",
        type=_memory_size,
        metavar="SIZE",
        help="estimate the package's memory, and say whether it is at most SIZE, for example 256MB",
    )
    parser.add_argument("--json", action="store_true", help="print one object a model")
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="write the names of the classes that the model's file has, a line each",
    )
    add_dump_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings about each model. Return 1 if a model cannot be built or is too large, otherwise 0."""
    if args.labels is not None and args.labels.exists():
        raise TvmbuildError(f"{args.labels} exists", "name a file that does not exist yet")
    if args.labels is not None and len(args.models) > 1:
        raise TvmbuildError("--labels writes the names of one model", "check one model at a time")
    found = {path: _examine(path, args) for path in args.models}
    unknown = {name for name, _ in (*args.shapes, *args.values)}.difference(
        *(facts["names"] for facts in found.values())
    )
    if unknown and all(facts["names"] for facts in found.values()):
        raise TvmbuildError(f"no model has an input {', '.join(sorted(unknown))}", "correct --shape or --value")
    refused = False
    for path, facts in found.items():
        memory = _read_memory(facts)
        excess = None if memory is None or args.memory is None else memory.explain_excess(args.memory)
        refused = refused or bool(facts["problem"]) or excess is not None
        if args.json:
            exceeds = None if memory is None or args.memory is None else excess is not None
            judged = {"memory_limit": args.memory, "exceeds_memory": exceeds}
            print(json.dumps({"model": str(path), **facts, **judged}))
        else:
            lines = [*describe(path, facts), *(_describe_memory(memory, args.memory, excess) if memory else ())]
            print("\n".join([*lines, *facts.get("passes", ())]))
        if args.labels is not None:
            _write_labels(args.labels, path, facts.get("labels", ()))
    return 1 if refused else 0


def _memory_size(text: str) -> int:
    """Parse a size of memory, such as `256 MB`, to bytes. Raises ArgumentTypeError for other texts."""
    if not SIZE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text} is not a size with its unit, such as 256MB")
    return read_size(text)


def _examine(path: Path, args: argparse.Namespace) -> dict[str, Any]:
    if not path.is_file():
        raise explain_absence(path)
    dump = None if args.dump_ir is None else prepare_folder(args.dump_ir / path.stem)
    asked = {"path": str(path.absolute()), "cpu": args.cpu, "shapes": dict(args.shapes), "values": dict(args.values)}
    passes = {"dump": None if dump is None else str(dump), "passes": args.print_passes}
    request = json.dumps({**asked, **passes, "memory": args.memory is not None})
    try:
        done = run_module("tvmbuild.building.examine", request, timeout_s=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {"problem": f"it was not understood in {TIMEOUT_S} s", "hint": None, "names": []}
    if done.returncode != 0:
        problem = f"a bug in tvmbuild, or in a library that it uses: {explain_failure(done)}"
        return {"problem": problem, "hint": "please report it", "names": []}
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def _write_labels(file: Path, path: Path, names: list[str]) -> None:
    if not names:
        raise TvmbuildError(f"{path} has no names of classes", "write the file yourself, a name each line")
    try:
        write_text(file, "".join(f"{name}\n" for name in names))
    except OSError as error:
        raise TvmbuildError(f"cannot write {file}: {error.strerror}", "name another file") from error


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
    inputs = ", ".join(facts["inputs"]) or "none"
    lines.append(f"  opset {facts['opset']}, {count(facts['nodes'], 'node')}; inputs {inputs}")
    return lines if facts["also"] else [*lines, *_price(facts)]


def _describe_memory(memory: Memory, limit: int, excess: str | None) -> list[str]:
    return [
        f"  about {format_size(memory.total)} of memory (an estimate, without records): {memory.describe()}",
        f"  {excess or f'at most {format_size(limit)}, as allowed'}",
    ]


def _read_memory(facts: Mapping[str, Any]) -> Memory | None:
    value = facts.get("memory")
    return Memory(**{**value, "largest": read_largest(value["largest"])}) if value else None


def _price(facts: dict[str, Any]) -> list[str]:
    constants, workspace = (format_size(facts[part]) for part in ("constants", "workspace"))
    work, stands = f"{facts['flops'] / 1e9:.3g} GFLOP per run", "; ".join(facts["stand_ins"])
    return [
        f"  {count(facts['tasks'], 'Task')}, {work}, {constants} of constants, {workspace} of workspace"
        + (f", where {stands}" if stands else ""),
        *(f"  slow without records: {each}" for each in facts["slow"]),
        *(f"  {note}" for note in facts["notes"]),
        *(f"  its outputs fit {each}".replace("\n", f"\n{' ' * 18}") for each in facts["proposals"]),
        *(["  several sizes in one package, by these lines in models.yaml:"] if facts["sizes"] else []),
        *(f"    {line}" for line in facts["sizes"]),
    ]
