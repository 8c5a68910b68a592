"""The stage validate:M@T: check a package's numbers on this machine if the package's device is elsewhere.

A device of this machine runs the package if one can. Otherwise this CPU computes the package's module.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tvmbuild.base.files import sha256_file, write_json
from tvmbuild.base.kept_nodes import list_kept
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import BenchmarkOptions
from tvmbuild.base.steps import (
    Step,
    ValidateStep,
    find_file_beside,
    find_model,
    find_original,
    list_sample_files,
    list_sizes,
)
from tvmbuild.benchmarking.accuracy import Judge, judge_file_too, make_judge
from tvmbuild.benchmarking.agreement import check_agreement
from tvmbuild.benchmarking.contest import Trial
from tvmbuild.benchmarking.stand_in import CannotRunError, run_package
from tvmbuild.benchmarking.validated import Validated, join_sizes
from tvmbuild.benchmarking.validation import lower_model, validate
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.metadata import ModelInputs, PackageTarget, TakesInputs
from tvmbuild.preparing.reference import read_reference
from tvmbuild.records.schedule import read_schedule


def run(step: Step[ValidateStep]) -> None:
    """Publish validated.json. Raises TvmbuildError if the outputs differ from the reference.

    If the outputs on real inputs are too far from the original model's outputs, this publishes the file and then raises
    VerdictError.
    """
    found = _compute(step) if step.options.stand_in is None else _run(step)
    write_json(step.output("validated"), found.to_json())
    check_agreement(found.accuracy, step.options.accuracy)


def _run(step: Step[ValidateStep]) -> Validated:
    """Run the package on this machine's device. If the device lacks a feature, the CPU computes the model instead."""
    package, tolerance = step.input("package"), step.options.tolerance
    judge = _make_judge(step, read_metadata(package))
    trial = Trial(step.subject, package, None, step.input("reference"), 1, tolerance, BenchmarkOptions(), judge=judge)
    sizes = list_sizes(step, "reference")
    others = [trial.at(size, None, step.input(f"reference {size}")) for size in sizes]
    try:
        return join_sizes([*map(run_package, others), run_package(trial)])
    except CannotRunError as error:
        report_progress(f"this machine's {step.options.kind} device cannot run the package: {error.message}")
        return replace(_compute(step), note=f"{step.options.stand_in} cannot run the package: {error.message}")


def _compute(step: Step[ValidateStep]) -> Validated:
    """Compute the model at each of its sizes on the CPU, or reuse the result of another cell with the same lowering.

    Batches that a package computes in parts have no schedule of their own, and only a package computes them.
    """
    own = list_sizes(step, "schedule")  # those of the largest size too
    sizes = [size for size in list_sizes(step, "reference") if size in own]
    found = [_compute_one(step, find_model(step, size), f"schedule {size}", f"reference {size}") for size in sizes]
    largest = f"schedule {own[-1]}" if own else "schedule"
    return join_sizes([*found, _compute_one(step, step.input("model"), largest, "reference")])


def _compute_one(step: Step[ValidateStep], path: Path, schedule: str, role: str) -> Validated:
    """Compute a model with the schedule and the reference of these roles. Only the largest size has real inputs."""
    options, is_largest = step.options, role == "reference"
    target = PackageTarget(
        options.target,
        options.kind,
        options.attributes,
        options.host,
        precision=options.precision,
        keep=list_kept(step),
    )
    with device_lock("local", exclusive=False):
        model = lower_model(path, target, read_schedule(step.input(schedule)), step.model)
        reference = step.input(role)
        key = model.key(reference.read_bytes(), options.tolerance, _digest_samples(step) if is_largest else b"")
        known = Layout(step.root).validated(step.model, key)
        takes = ModelInputs(step.model, model.lowered.inputs, options.preprocess)
        judge = _make_judge(step, takes) if is_largest else None
        found = None if is_largest and _has_metric(step) else _read(known)
        found = found or validate(model, read_reference(reference), options.tolerance, judge)
    write_json(known, found.to_json())
    return found


def _make_judge(step: Step[ValidateStep], takes: TakesInputs) -> Judge | None:
    """Return the judge of the accuracy, or None if the model names no samples."""
    accuracy = step.options.accuracy
    if accuracy is None:
        return None
    judge = make_judge(accuracy, takes, find_original(step), list_sample_files(step), step.root)
    return judge_file_too(judge, find_file_beside(step))


def _has_metric(step: Step[ValidateStep]) -> bool:
    """Return whether the user's own metric judges the package. Its imports are in no key, so nothing is reused."""
    return step.options.accuracy is not None and step.options.accuracy.metric is not None


def _digest_samples(step: Step[ValidateStep]) -> bytes:
    """Return bytes that identify the samples, the original model and the preprocessing, but not the thresholds.

    Return empty bytes if the model names no samples.
    """
    accuracy, files = step.options.accuracy, list_sample_files(step)
    if accuracy is None:
        return b""
    told = [accuracy.kind, accuracy.paths, step.options.preprocess, *map(sha256_file, [find_original(step), *files])]
    return repr(told).encode()


def _read(path: Path) -> Validated | None:
    try:
        return Validated.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
