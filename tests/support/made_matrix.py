"""Matrices of cells that were never built, with everything that a report can show, to test its layout and size."""

from __future__ import annotations

from dataclasses import replace

from benchmark_results import make_entry, make_result, rival

from tvmbuild.benchmarking.agreement import Agreement
from tvmbuild.benchmarking.history import Entry
from tvmbuild.benchmarking.results import EmulatedResult, Result
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.profile import OperatorRow, Peak
from tvmbuild.records.course import Course
from tvmbuild.records.selection import TaskId
from tvmbuild.report.cells import CellReport, Failure
from tvmbuild.report.limits import choose_limits
from tvmbuild.report.tuning import TunedTask, Tuning

DAY_S = 86_400
FIRST_RUN = 1_780_000_000
PEAK = Peak(118.0, 14.2, 2, "fp32 FMA in registers", "NumPy's copy of 256 MiB")
NETWORKS = ("mobilenet_v2", "resnet50", "silero_vad", "yolov3_tiny", "minilm", "magika", "squeezenet", "bert_tiny")
HARDWARE = ("x86-64-v3", "x86-64-v4", "pi4", "h200", "nuc-vulkan", "x86-64-vnni", "pi5", "jetson-cpu")


def make_matrix(models: int, targets: int, history: int = 12) -> list[CellReport]:
    """Return cells of every state: mostly timed, and whole columns of boards that are not here."""
    rows = [f"{NETWORKS[i % len(NETWORKS)]}{'' if i < len(NETWORKS) else f'_{i}'}" for i in range(models)]
    columns = [f"{HARDWARE[i % len(HARDWARE)]}{'' if i < len(HARDWARE) else f'-{i}'}" for i in range(targets)]
    tasks = choose_limits(models * targets).tasks
    places = [(i, j) for i in range(models) for j in range(targets)]
    return [_make_cell((rows[i], columns[j]), i, j, history, tasks) for i, j in places]


def make_timed(
    model: str, target: str, times_ms: tuple[float, float] = (2.0, 3.0), history: int = 12, tasks: int = 8
) -> CellReport:
    """Return a cell with all facts; its latency and its first baseline's are in ms."""
    result = _make_result(f"{model}@{target}", *times_ms)
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
        tuning=_make_tuning(target, tasks),
    )


def _make_tuning(target: str, tasks: int) -> Tuning:
    """Return Tasks with known courses, except for the last Task's."""
    found = []
    for index in range(tasks):
        key = f"{index:016x}"
        points = tuple((1 + 7 * step, 1e-4 * (1 + index) * 0.8**step) for step in range(max(3, 9 - index)))
        course = Course("zen4", "t", points, 64) if index < tasks - 1 else None
        task = TaskId(key, f"conv2d_add_clip_{index}", 1 + index % 3)
        record = f"records/{target}/{key}.json"
        found.append(TunedTask(task, record, "zen4", 64, points[-1][1], course, is_searched=index == 2))
    return Tuning(tuple(found), 34)


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
    """Return runs that become faster except one; the last is the result."""
    entries = []
    for index in range(runs):
        factor = 1 + 0.08 * (runs - 1 - index) + (0.4 if index == runs // 2 else 0.0)
        median = result.latency.median
        slowed = replace(median, value=median.value * factor, low=median.low * factor, high=median.high * factor)
        earlier = replace(result, latency=replace(result.latency, median=slowed), rivals=())
        schedules = {f"{index // 3:016x}": "0" * 12}
        entries.append(make_entry(FIRST_RUN + index * DAY_S, earlier if index < runs - 1 else result, **schedules))
    return tuple(entries)


def _make_cell(name: tuple[str, str], i: int, j: int, history: int, tasks: int) -> CellReport:
    model, target = name
    kind = (3 * i + 5 * j) % 11
    timed = make_timed(model, target, (0.2 * 1.7 ** (i % 9) * (1 + j % 3), 0.3 * 1.7 ** (i % 9)), history, tasks)
    if target.startswith("nuc"):
        return CellReport(model, target, "unavailable", "no Vulkan device answers: apt install mesa-vulkan-drivers")
    if kind == 7:
        return CellReport(model, target, "not built")
    if kind == 3:
        failure = Failure(f"tune:{timed.name}", "none of the candidates ran", "make room", "build/t.log", kept=False)
        return CellReport(model, target, "failed", f"{failure.step}: {failure.message}", failure, 34, 20)
    return _vary(timed, kind)


def _vary(timed: CellReport, kind: int) -> CellReport:
    """Return the cell as not timed, run on an emulated board, or with a doubtful latency."""
    result = timed.result
    if result is None or kind == 5:
        reason = f"{timed.target} has `device: none`"
        return replace(timed, status="built", reason=reason, result=None, history=())
    if timed.target.startswith("pi4"):
        emulated = EmulatedResult(result.cell, result.product, 2, result.machine, 1e-6, 1e-6)
        return replace(timed, result=None, history=(), emulated=emulated)
    if kind == 9:
        return replace(timed, result=replace(result, warnings=("the machine was busy: other programs took 9 %",)))
    return timed
