"""The programs with which a benchmark compares a package: the baselines of targets.yaml, and other packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tvmbuild.base.files import sha256_file
from tvmbuild.base.progress import report_progress
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.model_worker import Load
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata, write_package
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.records.schedule import Schedule


@dataclass(frozen=True)
class Contender:
    """One program that runs the model in a benchmark: a baseline or another package."""

    name: str
    version: str
    load: Load


@dataclass(frozen=True)
class Contest:
    """The package under test: the other contenders are compared with it."""

    info: PackageInfo
    load: Load
    model: Path | None
    """The simplified ONNX file. None if only the package exists."""


def prepare_baseline(name: str, contest: Contest, folder: Path) -> Contender:
    """Return the baseline called ``name``, ready to start. Its files are written to ``folder``.

    Raises TvmbuildError with the reason if this machine cannot run the baseline.
    """
    return BASELINES[name](contest, folder)


def prepare_package(path: Path, contest: Contest) -> Contender:
    """Return the package at ``path`` as a contender with the contest's inputs.

    Raises TvmbuildError if its inputs or the names of its outputs differ from those of the contest's package.
    """
    info = read_metadata(path)
    if info.inputs != contest.info.inputs or [each.name for each in info.outputs] != _output_names(contest):
        raise TvmbuildError(
            f"{path} has other inputs or outputs than {contest.load.model.name}",
            "compare two packages of the same model",
        )
    load = Load("tvm", path, contest.load.reference, contest.load.threads)
    return Contender(str(path), sha256_file(path)[:12], load)


def _output_names(contest: Contest) -> list[str]:
    return [each.name for each in contest.info.outputs]


def _onnxruntime(contest: Contest, folder: Path) -> Contender:  # noqa: ARG001 - needs no files of its own
    return Contender("onnxruntime", version("onnxruntime"), _load_model("onnxruntime", contest))


def _openvino(contest: Contest, folder: Path) -> Contender:  # noqa: ARG001 - as above
    try:
        found = version("openvino")
    except PackageNotFoundError as error:
        raise TvmbuildError("OpenVINO is not installed", "`pip install 'tvmbuild[openvino]'` brings it") from error
    return Contender("openvino", found, _load_model("openvino", contest))


def _tvm_untuned(contest: Contest, folder: Path) -> Contender:
    report_progress("compiling without records")
    model = _require_model(contest)
    try:
        package = compile_untuned(model, contest.info, folder)
    except (RuntimeError, TypeError, ValueError) as error:  # TVM's errors, including tvm.error.InternalError
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise TvmbuildError(
            f"TVM cannot compile the model without records: {lines[-1].strip() if lines else type(error).__name__}"
        ) from error
    load = Load("tvm", package, contest.load.reference, contest.load.threads)
    return Contender("tvm-untuned", version("apache-tvm"), load)


def _load_model(runtime: str, contest: Contest) -> Load:
    return Load(runtime, _require_model(contest), contest.load.reference, contest.load.threads)


def _require_model(contest: Contest) -> Path:
    if contest.model is None:
        raise TvmbuildError("there is no ONNX file of the model", "name a cell of a project instead of a package")
    return contest.model


BASELINES: dict[str, Callable[[Contest, Path], Contender]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "tvm-untuned": _tvm_untuned,
}
"""The baselines that `benchmark: {baselines: …}` may name, each with the function that prepares it."""


# The baseline tvm-untuned, a package without records: its latency over the tuned package's shows the gain of tuning.


def compile_untuned(model: Path, tuned: PackageInfo, folder: Path) -> Path:
    """Compile the simplified model without records, in the layout and for the target of the ``tuned`` package.

    Returns the path of the new package in ``folder``. Holds the device's lock shared, like the compile stage.
    """
    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415 - TVM, for this baseline only

    path, options = folder / "untuned.tar", BuildOptions(tuned.model, tools=tuned.tools)
    with device_lock("local", exclusive=False):
        package = build_package(model, tuned.target, Schedule(layout=tuned.layout), options)
        write_package(path, package)
        report_progress(f"{package.info.coverage.covered} of {package.info.coverage.tasks} tasks have records")
    return path
