"""Questions to the compiler, in its own process, for `--dump-ir`, `--print-passes` and `explain kernel`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.files import canonical_json
from tvmbuild.base.processes import explain_failure, run_module
from tvmbuild.base.steps import CompileStep, Step, has_options
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan
from tvmbuild.stages.target import describe_target


def add_dump_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that show the compiler's passes."""
    parser.add_argument(
        "--dump-ir", type=Path, metavar="DIR", help="write the module after each pass that changed it, numbered"
    )
    parser.add_argument("--print-passes", action="store_true", help="print each pass, its time and what it changed")


def show_passes(plan: Plan, cell: str, folder: Path | None = None) -> list[str]:
    """Compile the cell again and return a table of the compiler's passes, as lines.

    The module after each pass is written to ``folder``, if it is not None. The project stays unchanged. Raises
    TvmbuildError as `list_kernels` does.
    """
    shown: list[str] = _inspect(plan, cell, {"folder": None if folder is None else str(prepare_folder(folder))})
    return shown


def list_kernels(plan: Plan, cell: str) -> list[dict[str, Any]]:
    """Schedule the cell again and return its kernels, each with the origin of its schedule.

    Raises TvmbuildError if no cell has that name, if tune has not run for it yet, or if it cannot be compiled.
    """
    kernels: list[dict[str, Any]] = _inspect(plan, cell, {})
    return kernels


def find_compile_step(plan: Plan, cell: str) -> Step[CompileStep]:
    """Return the step that compiles a cell. Raises TvmbuildError if no cell has that name."""
    step = plan.find(f"compile:{cell}")
    if step is None or not has_options(step, CompileStep):
        cells = [each.subject for each in plan.steps if each.stage == "compile"]
        meant = suggest(find_nearest(cell, cells))
        raise TvmbuildError(f"no cell is called {cell!r}", f"{meant}`tvmbuild plan` shows all of them.")
    return step


def _inspect(plan: Plan, cell: str, wish: Mapping[str, object]) -> Any:
    step = find_compile_step(plan, cell)
    missing = [role for role in ("model", "kept", "schedule") if role in step.inputs and not step.input(role).is_file()]
    if missing:
        raise TvmbuildError(
            f"{step.subject} has no {' and no '.join(missing)} yet", f"Run `doit compile:{step.subject}` first."
        )
    target = describe_target(step)
    files = {role: str(step.input(role)) for role in ("model", "schedule")}
    request = {**files, "target": target.to_json(), **wish}
    done = run_module("tvmbuild.building.inspection", canonical_json(request))
    if done.returncode != 0:
        raise TvmbuildError(f"{step.subject} cannot be compiled: {explain_failure(done)}", "Please report it.")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if found["problem"]:
        raise TvmbuildError(found["problem"], found["hint"])
    return found["found"]


def prepare_folder(folder: Path, remedy: str = "Correct --dump-ir.") -> Path:
    """Make the folder and return its absolute path. Raises TvmbuildError with the remedy if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TvmbuildError(f"cannot make the folder {folder}: {error.strerror}", remedy) from error
    return folder.absolute()
