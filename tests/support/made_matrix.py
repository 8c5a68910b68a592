"""Matrices of cells that were never built, with everything that a report can show: for its layout and its size."""

from __future__ import annotations

from dataclasses import replace

from benchmark_results import make_entry, make_result, rival

from tvmbuild.benchmarking.agreement import Agreement
from tvmbuild.benchmarking.history import Entry
from tvmbuild.benchmarking.results import EmulatedResult, Result
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.profile import OperatorRow, Peak
from tvmbuild.report.cells import CellReport, Failure

DAY_S = 86_400
FIRST_RUN = 1_780_000_000
PEAK = Peak(118.0, 14.2, 2, "fp32 FMA in registers", "NumPy's copy of 256 MiB")
NETWORKS = ("mobilenet_v2", "resnet50", "silero_vad", "yolov3_tiny", "minilm", "magika", "squeezenet", "bert_tiny")
HARDWARE = ("x86-64-v3", "x86-64-v4", "pi4", "h200", "nuc-vulkan", "x86-64-vnni", "pi5", "jetson-cpu")


def make_matrix(models: int, targets: int, history: int = 12) -> list[CellReport]:
    """Return cells of every state: mostly timed, and whole columns of boards that are not here."""
    rows = [f"{NETWORKS[i % len(NETWORKS)]}{'' if i < len(NETWORKS) else f'_{i}'}" for i in range(models)]
    columns = [f"{HARDWARE[i % len(HARDWARE)]}{'' if i < len(HARDWARE) else f'-{i}'}" for i in range(targets)]
    return [
        _make_cell(model, target, i, j, history) for i, model in enumerate(rows) for j, target in enumerate(columns)
    ]


def make_timed(model: str, target: str, ms: float = 2.0, baseline_ms: float = 3.0, history: int = 12) -> CellReport:
    """Return a cell of which everything is known."""
    result = _make_result(f"{model}@{target}", ms, baseline_ms)
    return CellReport(
        model=model,
        target=target,
        status="ok",
        tasks=34,
        covered=33,
        uncovered=("softmax",),
        result=result,
        history=_make_history(result, history),
        package_bytes=14_387_200,
        built_for=PackageTarget(target, "llvm"),
        notes=("layout NCHW: ConvertLayout failed",),
        peak=PEAK,
    )


def _make_result(cell: str, ms: float, baseline_ms: float) -> Result:
    rivals = (
        rival("onnxruntime", ms, baseline_ms, "1.23.0"),
        rival("openvino", ms, baseline_ms * 0.8, "2025.3"),
        rival("tvm-untuned", ms, ms * 9),
    )
    names = ("conv2d_add_clip", "depthwise_conv2d_add_clip", "conv2d_add", "matmul_add", "softmax", "mean", "transpose")
    shares = [0.7**index for index in range(14)]
    operators = tuple(
        OperatorRow(
            function=f"fused_{index}",
            name=f"{names[index % len(names)]}_{index}",
            key=f"{index:016x}",
            calls=1 + index % 4,
            us=ms * 1000 * share / sum(shares),
            share=share / sum(shares),
            flops=None if index % 7 == 6 else int(4e6 * ms * share * (index + 2)),
            bytes=int(4e5 * (index + 1)),
            covered=index != 4,
        )
        for index, share in enumerate(shares)
    )
    agreement = Agreement(20, 19, 0.26, 19.8, 0.013, 0.0041)
    return replace(make_result(cell, ms, baseline_ms), rivals=rivals, operators=operators, accuracy=agreement)


def _make_history(result: Result, runs: int) -> tuple[Entry, ...]:
    """Return runs that become faster but for one, the last of which is the result."""
    entries = []
    for index in range(runs):
        factor = 1 + 0.08 * (runs - 1 - index) + (0.4 if index == runs // 2 else 0.0)
        median = result.latency.median
        slowed = replace(median, value=median.value * factor, low=median.low * factor, high=median.high * factor)
        earlier = replace(result, latency=replace(result.latency, median=slowed), rivals=())
        key = f"{index // 3:016x}"
        entries.append(
            make_entry(FIRST_RUN + index * DAY_S, earlier if index < runs - 1 else result, **{key: "0" * 12})
        )
    return tuple(entries)


def _make_cell(model: str, target: str, i: int, j: int, history: int) -> CellReport:
    if target.startswith("nuc"):
        reason = "no Vulkan device answers: apt install mesa-vulkan-drivers"
        return CellReport(model, target, "unavailable", reason)
    kind = (3 * i + 5 * j) % 11
    timed = make_timed(model, target, 0.2 * 1.7 ** (i % 9) * (1 + j % 3), 0.3 * 1.7 ** (i % 9), history)
    if kind == 3:
        failure = Failure(
            f"tune:{timed.name}", "none of the candidates ran", "make room in TMPDIR", "build/logs/t", False
        )
        return CellReport(model, target, "failed", f"{failure.step}: {failure.message}", failure, 34, 20)
    if kind == 5:
        return replace(timed, status="built", reason=f"{target} has `device: none`", result=None, history=())
    if kind == 7:
        return CellReport(model, target, "not built")
    if target.startswith("pi4") and timed.result:
        r = timed.result
        emulated = EmulatedResult(r.cell, r.product, 2, r.machine, 1e-6, 1e-6)
        return replace(timed, result=None, history=(), emulated=emulated)
    if kind == 9 and timed.result:
        return replace(timed, result=replace(timed.result, warnings=("the machine was busy: other programs took 9 %",)))
    return timed
