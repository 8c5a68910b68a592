"""What `--dump-ir`, `--print-passes` and `explain kernel` ask the compiler, in a process of its own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.processes import run_module
from tvmbuild.base.steps import CompileStep, has_options
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan


def add_dump_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that show what the compiler's passes do."""
    parser.add_argument(
        "--dump-ir", type=Path, metavar="DIR", help="write the module after each pass that changed it, numbered"
    )
    parser.add_argument("--print-passes", action="store_true", help="print each pass, its time and what it changed")


def inspect_cell(plan: Plan, cell: str, folder: Path | None = None) -> dict[str, Any]:
    """Compile the cell once more and return what `building.inspection` finds; nothing of the project is written.

    TvmbuildError where there is no such cell, where tune has not run for it yet, and where it cannot be compiled.
    """
    step = plan.find(f"compile:{cell}")
    if step is None or not has_options(step, CompileStep):
        cells = [each.subject for each in plan.steps if each.stage == "compile"]
        meant = suggest(find_nearest(cell, cells))
        raise TvmbuildError(f"no cell is called {cell!r}", f"{meant}`tvmbuild plan` shows all of them.")
    missing = [role for role in ("model", "schedule") if not step.input(role).is_file()]
    if missing:
        raise TvmbuildError(
            f"{step.subject} has no {' and no '.join(missing)} yet", f"Run `doit compile:{step.subject}` first."
        )
    options = step.options
    target = {
        "name": options.target,
        "kind": options.kind,
        "attributes": dict(options.attributes),
        "host": dict(options.host),
        "glibc": options.glibc,
        "precision": options.precision,
    }
    request = {
        "model": str(step.input("model")),
        "schedule": str(step.input("schedule")),
        "target": target,
        "folder": None if folder is None else str(prepare_folder(folder)),
    }
    done = run_module("tvmbuild.building.inspection", json.dumps(request))
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise TvmbuildError(f"{step.subject} cannot be compiled: {(lines or ['no message'])[-1]}", "Please report it.")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if found["problem"]:
        raise TvmbuildError(found["problem"], found["hint"])
    return found


def prepare_folder(folder: Path) -> Path:
    """Make the folder for a dump and return its absolute path; TvmbuildError where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TvmbuildError(f"cannot make the folder {folder}: {error.strerror}", "Correct --dump-ir.") from error
    return folder.absolute()
