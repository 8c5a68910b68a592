"""The package that a model gives without any record: what tuning has brought is its latency over the tuned one's."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.files import write_json
from tvmbuild.frozen_map import FrozenMap
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.records.selection import Schedule
from tvmbuild.steps import CompileStep, Step


def compile_untuned(model: Path, tuned: PackageInfo, folder: Path) -> Path:
    """Compile the simplified model for the tuned package's target and in its layout; return the package in ``folder``.

    Holds the device's lock shared meanwhile, as the compile stage does.
    """
    from tvmbuild.stages import compile as compile_stage  # noqa: PLC0415 - imports TVM, which only this baseline needs

    schedule, package = folder / "schedule.json", folder / "untuned.tar"
    write_json(schedule, Schedule(FrozenMap(), tuned.layout).to_json())
    target = tuned.target
    options = CompileStep(
        model=tuned.model,
        target=target.name,
        kind=target.kind,
        attributes=target.attributes,
        host=target.host,
        link="auto",
        glibc=target.glibc,
        preprocess=None,
        precision=target.precision,
    )
    inputs = FrozenMap({"model": model, "schedule": schedule})
    subject = f"{tuned.model}@{target.name}"
    compile_stage.run(Step("compile", subject, options, inputs, FrozenMap({"package": package}), tools=tuned.tools))
    return package
