"""The option `tvmbuild doctor --vulkan-selftest`: every class of kernels on the Vulkan device against the CPU."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

import onnxruntime
from rich.table import Table

from tvmbuild.base.attributes import Attributes, Precision
from tvmbuild.base.console import make_console
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.cli.doctor.selftest_models import Case, make_cases
from tvmbuild.compiler.codegen.link import tools_here
from tvmbuild.devices.local.describe import describe_cpu, describe_gpu
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.session import Session
from tvmbuild.preparing.compare import find_error
from tvmbuild.targets.vulkan import explain_vulkan_here

TOLERANCES: dict[Precision, float] = {"fp32": 1e-5, "fp16": 2e-2}
"""The tolerance of each precision, as a share of an output's largest magnitude."""


def run_selftest() -> int:
    """Print one row for each case, with a result for each precision. Return 1 if a case failed, otherwise 0.

    Raises TvmbuildError if there is no Vulkan device.
    """
    attributes = describe_gpu("vulkan", 0)
    if attributes is None:
        raise TvmbuildError("there is no Vulkan device to test", explain_vulkan_here())
    device = cast("Attributes", FrozenMap(attributes))
    host = cast("Attributes", FrozenMap({**describe_cpu(), "num-cores": 1}))
    table = Table("kernels", "fp32", "fp16", box=None, pad_edge=False)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="tvmbuild-selftest-") as folder, progress_shown_by(lambda _: None):
        for case in make_cases():
            cells = []
            for precision, tolerance in TOLERANCES.items():
                target = PackageTarget("selftest", "vulkan", device, host, precision=precision)
                said, is_wrong = _test(case, target, tolerance, Path(folder))
                wrong += is_wrong
                cells.append(said)
            table.add_row(case.name, *cells)
    console = make_console()
    console.print(table)
    console.print(f"{wrong} wrong" if wrong else "every number is right; they are errors over the largest magnitude")
    return 1 if wrong else 0


def _test(case: Case, target: PackageTarget, tolerance: float, folder: Path) -> tuple[str, bool]:
    """Return the result of a case in a few words, and whether it failed."""
    content = case.model.SerializeToString()
    reference = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in reference.get_outputs()]
    want = dict(zip(names, reference.run(names, case.inputs), strict=True))
    try:
        package = folder / f"{target.precision}.tar"
        write_package(package, build_package(content, target, options=BuildOptions("selftest", tools_here().command)))
        with Session(package) as session:
            got = session.run(case.inputs)
    except (TvmbuildError, RuntimeError) as error:
        return f"failed: {str(error).splitlines()[0]}", True
    distance = find_error(got, want)
    return (f"{distance:.0e}", False) if distance <= tolerance else (f"WRONG: {distance:.0e}", True)
