"""The part of a benchmark that is about frames: the gate, then the whole way timed in turns with the usual one.

The first frame of the package is timed. The others differ from it in the kernels of the preparation only, which take a
small part of the time, and each one would double the benchmark's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path

from tvmbuild.base.progress import report_progress
from tvmbuild.benchmarking.frames.agreement import describe_outputs, describe_results
from tvmbuild.benchmarking.frames.drawing import draw_frame
from tvmbuild.benchmarking.frames.gate import Checked, check_frames, describe_frame
from tvmbuild.benchmarking.frames.results import PARTS, FrameResult, FrameRival, FrameTimes
from tvmbuild.benchmarking.frames.serve_opencv import start_opencv
from tvmbuild.benchmarking.measure import Measured, measure_in_turns
from tvmbuild.benchmarking.statistics import Samples, estimate_ratio, summarize
from tvmbuild.devices.device import Device
from tvmbuild.devices.frame_worker import Cost, FrameWorker
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.model_worker import Load, Worker
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo

OURS, USUAL = "tvm", "opencv"
LEAST_SAMPLES = 200
"""The number of calls that are timed, so that a hundredth of them is more than one."""
COST_S, COST_ROUNDS = 0.6, 4
"""The time in seconds of one measurement of the cost, and the number of these, in turns."""
APART, CALL_MS = 0.3, 0.2
"""The difference of the parts' sum from the whole that needs a warning: a share, and the ms of the calls themselves."""
SLOW_MS, COST_CALLS = 50.0, 5
"""Calls that take longer are made less than COST_CALLS times in a turn."""


@dataclass(frozen=True)
class FrameTask:
    """The package whose frames are compared and timed."""

    who: str
    """The stage and the cell, for messages."""
    info: PackageInfo
    package: Path
    model: Path | None
    """The ONNX file for the usual way, or None if this way is not asked for."""
    reference: Path
    device: Device


@dataclass(frozen=True)
class Rival:
    """Another way from a frame to the result."""

    worker: Worker
    """Its process."""
    frames: FrameWorker
    """The frames in this process."""
    version: str
    told: str
    """Its agreement with ours, in words."""


@dataclass
class FrameField:
    """The ways that are compared, paused, and the reasons why others are not."""

    task: FrameTask
    checked: Checked
    ours: Worker
    others: dict[str, Rival] = field(default_factory=dict)
    """Name → the other way."""
    absent: list[tuple[str, str]] = field(default_factory=list)


def check_task(task: FrameTask, ours: Worker) -> Checked | None:
    """Compare frames and results with the reference. Return None if the package has neither.

    Raises TvmbuildError if they are wrong. If the device cannot run other functions than ``main``, a note says so.
    """
    return check_frames(task.info, ours, task.who, lacks=task.device.lacks_frames(task.info))


def prepare_frames(task: FrameTask, ours: Worker, stack: ExitStack, folder: Path) -> FrameField | None:
    """Compare frames and results with the reference, and start the usual way, which is left paused.

    Returns None if the package takes no frames and makes no results. Raises TvmbuildError if they are wrong.
    """
    checked = check_task(task, ours)
    if checked is None:
        return None
    found = FrameField(task, checked, ours)
    if checked.worker is None or task.model is None:
        return found
    ours.pause()
    try:
        _start_usual(found, checked.worker, task.model, stack, folder)
    except TvmbuildError as error:
        found.absent.append((USUAL, f"{error.message}; {error.hint}" if error.hint else error.message))
    finally:
        ours.resume()
    return found


def _start_usual(found: FrameField, ours: FrameWorker, model: Path, stack: ExitStack, folder: Path) -> None:
    """Start OpenCV's way, compare its results with ours, and pause it."""
    task, checked = found.task, found.checked
    if not has_opencv():
        raise TvmbuildError("OpenCV is not installed", "`pip install opencv-python-headless` brings it")
    report_progress("loading OpenCV and ONNX Runtime")
    load = Load(USUAL, model, task.reference, found.ours.threads)
    worker = stack.enter_context(start_opencv(task.package, load, folder))
    theirs = FrameWorker(worker, [draw_frame(frame) for frame in task.info.frames])
    theirs.choose(0, checked.thresholds)
    if not task.info.postprocess:
        told = _compare_outputs(found, ours, theirs)
    else:
        results = theirs.find(0, checked.thresholds)
        worker.pause()
        found.ours.resume()
        told = describe_results(ours.find(0, checked.thresholds), results)
        found.ours.pause()
    found.others[USUAL] = Rival(worker, theirs, find_opencv_version(), told)


def _compare_outputs(found: FrameField, ours: FrameWorker, theirs: FrameWorker) -> str:
    want = theirs.compute(0)
    theirs.pause()
    found.ours.resume()
    got = ours.compute(0)
    found.ours.pause()
    names = [name for name in want if name.startswith("output:")]
    return describe_outputs({name: got[name] for name in names}, {name: want[name] for name in names})


def has_opencv() -> bool:
    """Return whether OpenCV's Python package is installed, from any of its distributions."""
    return find_spec("cv2") is not None


def find_opencv_version() -> str:
    """Return the version of OpenCV's distribution, or an empty text if none is recorded."""
    names = packages_distributions().get("cv2", [])
    return version(names[0]) if names else ""


def finish_frames(found: FrameField, repeat: int) -> FrameResult:
    """Time the ways in turns, one frame a sample. The package's process is running, and paused afterwards.

    The caller must hold the device's lock.
    """
    checked, info = found.checked, found.task.info
    if checked.worker is None:
        return describe_untimed(info, checked)
    checked.worker.choose(0, checked.thresholds)
    workers = {OURS: checked.worker, **{name: each.frames for name, each in found.others.items()}}
    found.ours.pause()
    watch = found.task.device.watch((found.ours, *(each.worker for each in found.others.values())))
    measured = measure_in_turns(workers, 1, max(repeat, LEAST_SAMPLES), watch)
    costs = _measure_costs(workers, measured)
    mine, machine = costs[OURS], watch.read()
    times = {name: _summarize(measured.samples[name], costs[name]) for name in workers}
    throttled = [cost.throttled for cost in mine if cost.throttled is not None]
    return FrameResult(
        frame=describe_frame(info.frames[0]),
        check=checked.check,
        times=times[OURS],
        rivals=tuple(
            FrameRival(
                name,
                each.version,
                times[name],
                estimate_ratio(measured.samples[OURS], measured.samples[name]),
                each.told,
            )
            for name, each in found.others.items()
        ),
        absent=tuple(found.absent),
        notes=checked.notes,
        warnings=tuple(_list_doubts(measured, machine, times if _have_all_parts(info, times) else {})),
        found=checked.found,
        temperature_c=machine.temperature_c,
        throttled=sum(throttled) if throttled else None,
        clock=mine[-1].clock,
    )


def describe_untimed(info: PackageInfo, checked: Checked) -> FrameResult:
    """Return the result of a gate after which nothing is timed."""
    return FrameResult(describe_frame(info.frames[0]) if info.frames else None, checked.check, notes=checked.notes)


def _measure_costs(workers: Mapping[str, FrameWorker], measured: Measured) -> dict[str, list[Cost]]:
    report_progress("measuring the parts and the CPU time of a frame")
    costs: dict[str, list[Cost]] = {name: [] for name in workers}
    slowest = max(statistics.median(_flatten(each)) for each in measured.samples.values())
    calls = COST_CALLS if slowest < SLOW_MS else 1
    for _ in range(COST_ROUNDS if slowest < SLOW_MS else 1):
        for name, worker in workers.items():
            worker.resume()
            costs[name].append(worker.measure_cost(COST_S, calls))
            worker.pause()
    return costs


def _summarize(samples: Samples, costs: Sequence[Cost]) -> FrameTimes:
    joules = [cost.joules for cost in costs if cost.joules is not None]
    return FrameTimes(
        latency=summarize(samples),
        p99=find_percentile(_flatten(samples), 0.99),
        parts_ms={
            name: statistics.median(cost.parts_ms[name] for cost in costs)
            for name in PARTS
            if name in costs[0].parts_ms
        },
        cpu_ms=statistics.median(cost.cpu_ms for cost in costs),
        joules=statistics.median(joules) if len(joules) == len(costs) else None,
    )


def _flatten(samples: Samples) -> list[float]:
    return [sample for taken in samples.ms for sample in taken]


def find_percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that the ``share`` of all samples does not exceed."""
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def _have_all_parts(info: PackageInfo, times: Mapping[str, FrameTimes]) -> bool:
    """Return whether the parts should add up: a GPU overlaps them, and a board without Python lacks one."""
    wanted = PARTS if info.postprocess else PARTS[:-1]
    return not info.target.on_gpu and all(set(wanted) <= each.parts_ms.keys() for each in times.values())


def _list_doubts(measured: Measured, machine: MachineState, times: Mapping[str, FrameTimes]) -> Iterator[str]:
    """Yield the reasons to doubt the times. The parts of ``times`` must add up to about the whole."""
    if machine.busy:
        yield f"while frames were timed, {machine.busy}"
    for name in measured.unsteady:
        yield f"the calls of {name} with a frame did not become steady"
    for name, each in times.items():
        total, whole = sum(each.parts_ms.values()), each.latency.median.value
        if abs(total - whole) > APART * whole + CALL_MS:
            yield f"the parts of {name} add up to {total:.3g} ms, timed after the whole way's {whole:.3g} ms"
