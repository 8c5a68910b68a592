"""The package that a model gives without any record: what tuning has brought is its latency over the tuned one's."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.progress import report_progress
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.records.schedule import Schedule


def compile_untuned(model: Path, tuned: PackageInfo, folder: Path) -> Path:
    """Compile the simplified model for the tuned package's target and in its layout; return the package in ``folder``.

    Holds the device's lock shared meanwhile, as the compile stage does.
    """
    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415 - TVM, for this baseline alone

    path, options = folder / "untuned.tar", BuildOptions(tuned.model, tools=tuned.tools)
    with device_lock("local", exclusive=False):
        package = build_package(model, tuned.target, Schedule(layout=tuned.layout), options)
        write_package(path, package)
        report_progress(f"{package.info.coverage.covered} of {package.info.coverage.tasks} tasks have records")
    return path
