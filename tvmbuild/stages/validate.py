"""validate:M@T — the numbers of a package that cannot run here, computed by this machine's CPU from the same module."""

from __future__ import annotations

import json
from pathlib import Path

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Step, ValidateStep
from tvmbuild.benchmarking.validation import Validated, lower_model, validate
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.reference import read_reference
from tvmbuild.records.schedule import read_schedule


def run(step: Step[ValidateStep]) -> None:
    """Publish validated.json; TvmbuildError when the numbers are not the reference's. A lowering is computed once."""
    options = step.options
    target = PackageTarget(options.target, options.kind, options.attributes, options.host, precision=options.precision)
    with device_lock("local", exclusive=False):
        model = lower_model(step.input("model"), target, read_schedule(step.input("schedule")), step.model)
        reference = step.input("reference")
        known = Layout(step.root).validated(step.model, model.key(reference.read_bytes(), options.tolerance))
        found = _read(known) or validate(model, read_reference(reference), options.tolerance)
    write_json(known, found.to_json())
    write_json(step.output("validated"), found.to_json())


def _read(path: Path) -> Validated | None:
    try:
        return Validated.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
