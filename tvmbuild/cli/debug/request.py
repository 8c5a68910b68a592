"""The cell that `tvmbuild debug` examines, found in the project's plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.device_specs import DeviceSpec, LocalDevice
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Tolerance
from tvmbuild.base.steps import AnyStep, BenchmarkStep, CompileStep, Step, ValidateStep, has_options
from tvmbuild.cli.inspection import describe_target, find_compile_step
from tvmbuild.debugging.finding import Request
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan


def find_step(plan: Plan, word: str) -> Step[CompileStep]:
    """Return the step that compiles a cell, which ``word`` names itself or by its package.

    Raises TvmbuildError if no cell is meant.
    """
    if not word.endswith(".tar"):
        return find_compile_step(plan, word)
    package = Path(word).absolute()
    for step in plan.steps:
        if has_options(step, CompileStep) and step.output("package") == package:
            return step
    raise TvmbuildError(
        f"{word} is the package of no cell of this project",
        "the original is needed: run this in the project that built it, or start one with `tvmbuild init`",
    )


def make_request(plan: Plan, step: Step[CompileStep]) -> Request:
    """Return the request for a cell, with the device and the tolerance of the step that checks its numbers.

    Raises TvmbuildError if the cell is not built.
    """
    cell = step.subject
    chosen = [check for stage in ("validate", "benchmark") if (check := plan.find(f"{stage}:{cell}")) is not None]
    if not chosen:
        raise TvmbuildError(f"no step checks the numbers of {cell}")
    how = _read_check(chosen[0])
    request = Request(
        cell=cell,
        model=step.input("model"),
        package=step.output("package"),
        schedule=step.input("schedule"),
        reference=chosen[0].input("reference"),
        target=describe_target(step),
        tolerance=how.tolerance,
        folder=Layout(plan.root).debug(cell),
        device=how.device,
        threads=how.threads,
        link=step.options.link,
    )
    needed = [request.model, request.schedule, *([] if request.device is None else [request.package])]
    if not all(path.is_file() for path in needed):
        raise TvmbuildError(f"{cell} is not built yet", f"run `doit compile:{cell}` first")
    return request


@dataclass(frozen=True)
class _Check:
    """The device and the tolerance with which a step checks numbers."""

    device: DeviceSpec | None
    threads: int
    tolerance: Tolerance


def _read_check(step: AnyStep) -> _Check:
    if has_options(step, BenchmarkStep):
        return _Check(step.options.device, step.options.threads, step.options.tolerance)
    if has_options(step, ValidateStep):
        device = LocalDevice() if step.options.stand_in else None
        return _Check(device, available_cores(), step.options.tolerance)
    raise TypeError(f"{step.id} checks no numbers")
