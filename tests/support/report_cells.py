"""Cells of a project that were never built, for tests of the code that reports them."""

from __future__ import annotations

import io
from pathlib import Path

from benchmark_results import make_result
from rich.console import Console

from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import BenchmarkOptions, SimplifyOptions, Tolerance
from tvmbuild.base.steps import AnyStep, BenchmarkStep, SimplifyStep, Step
from tvmbuild.package.archive import Package, write_package
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget, TensorInfo
from tvmbuild.report.cells import CellReport, collect_cells
from tvmbuild.report.terminal import print_matrix

MODEL_OPTIONS = SimplifyStep("net", Source("path", "net.onnx"), (), SimplifyOptions())
CELL_OPTIONS = BenchmarkStep("cpu", "llvm", LocalDevice(), 2, Tolerance(), BenchmarkOptions())


def cell_steps(model: str, target: str, unavailable: str | None = None, no_device: str | None = None) -> list[AnyStep]:
    cell = f"{model}@{target}"
    return [
        Step("simplify", model, MODEL_OPTIONS),
        Step("tune", cell, CELL_OPTIONS, unavailable=unavailable),
        Step("compile", cell, CELL_OPTIONS, unavailable=unavailable),
        Step("benchmark", cell, CELL_OPTIONS, unavailable=unavailable or no_device),
    ]


def write_built(layout: Layout, model: str, target: str, uncovered: tuple[str, ...] = (), note: str = "") -> None:
    write_built_for(layout, model, PackageTarget(target, "llvm"), uncovered, note)


def write_built_for(
    layout: Layout, model: str, target: PackageTarget, uncovered: tuple[str, ...] = (), note: str = ""
) -> None:
    """Write a package, with a quarter of the weights if it computes in int8."""
    tensor = TensorInfo("x", (1,), "float32")
    info = PackageInfo(
        model=model,
        target=target,
        inputs=(tensor,),
        outputs=(tensor,),
        params="lifted",
        coverage=PackageCoverage(10, 10 - len(uncovered), uncovered),
        layout="NHWC",
        notes=(note,) if note else (),
    )
    weights = b"w" * (100_000 if target.precision == "int8" else 400_000)
    write_package(layout.package(model, target.name), Package(info, b"library" * 1000, weights))


def write_result(layout: Layout, model: str, target: str, tvm_ms: float = 2.0, onnxruntime_ms: float = 4.0) -> None:
    result = make_result(f"{model}@{target}", tvm_ms, onnxruntime_ms)
    write_json(layout.cell_file(model, target, "result.json"), result.to_json())


def only(root: Path, steps: list[AnyStep]) -> CellReport:
    (cell,) = collect_cells(root, steps)
    return cell


def shown(root: Path, steps: list[AnyStep], width: int = 120, *, long: bool = True) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_matrix(console, collect_cells(root, steps), long=long)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
