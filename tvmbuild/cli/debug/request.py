"""The cell that `tvmbuild debug` examines, found in the project's plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.device_specs import DeviceSpec, LocalDevice
from tvmbuild.base.files import sha256_file, write_bytes
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.base.specs import InputSpec, Tolerance
from tvmbuild.base.steps import AnyStep, BenchmarkStep, CompileStep, Step, ValidateStep, has_options
from tvmbuild.cli.inspection import find_compile_step
from tvmbuild.debugging.finding import Request
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.metadata import PackageInfo, default_threads
from tvmbuild.planning.plan import Plan
from tvmbuild.stages.target import describe_target


def find_step(plan: Plan, word: str) -> Step[CompileStep]:
    """Return the compile step that ``word`` names, by the cell or by the path of its package.

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
        "run this in the project that built it, or name the ONNX file with `--model NET.onnx`",
    )


def make_package_request(package: Path, model: Path, folder: Path) -> Request:
    """Return the request for a package without its project, built from the ONNX file ``model``.

    The simplified model and its reference are written into ``folder``. Raises TvmbuildError if the file is not a model
    with the package's inputs.
    """
    from tvmbuild.preparing.reference import write_reference  # noqa: PLC0415 - slow
    from tvmbuild.preparing.simplify import simplify  # noqa: PLC0415 - slow

    info = read_metadata(package)
    wanted = [InputSpec(each.name, each.shape) for each in info.inputs]
    try:
        with progress_shown_by(lambda text: print(text, file=sys.stderr)):
            made = simplify(model, wanted, name=info.model)
    except TvmbuildError as error:
        raise TvmbuildError(
            f"{model} cannot be the model of {package.name}: {error.message}",
            "name the ONNX file that it was built from; without `--model`, run this in its project",
        ) from error
    simplified, reference = folder / "model.onnx", folder / "reference.npz"
    is_built_from = sha256_file(model) == info.digests.get("model")
    write_bytes(simplified, model.read_bytes() if is_built_from else made.model)
    write_reference(reference, made.reference)
    return Request(
        cell=f"{info.model}@{info.target.name}",
        model=simplified,
        package=package,
        schedule=None,
        reference=reference,
        target=info.target,
        tolerance=Tolerance().at_least(info.target.precision),
        folder=Path("debug", f"{info.model}@{info.target.name}").absolute(),  # the examination runs in another folder
        device=LocalDevice(),
        threads=default_threads(info, available_cores()),
        remark="; ".join(_list_doubts(info, sha256_file(simplified))) or None,
    )


def _list_doubts(info: PackageInfo, model: str) -> Iterator[str]:
    """Yield the reasons to doubt a finding without the project; ``model`` is the digest of the simplified model."""
    if info.digests.get("model") not in {model, None}:
        yield "the package was built from another file, or simplified by another version: its own numbers may differ"
    covered = info.coverage.covered
    if covered:
        yield (
            f"{covered} of the package's {info.coverage.tasks} Tasks have records, which only its project has: "
            "the parts were built by rule"
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
    needed = [request.model, step.input("schedule"), *([] if request.device is None else [request.package])]
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
