"""benchmark:M@T — the package's numbers against the reference, then its latency against ONNX Runtime's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.devices.local import Load, Worker, start_worker
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import write_json
from tvmbuild.host_cpu import cpu_name
from tvmbuild.package.archive import read_package
from tvmbuild.progress import report_progress
from tvmbuild.specs import BenchmarkStep, Step
from tvmbuild.stages.compare import Comparison, compare
from tvmbuild.stages.reference import read_reference
from tvmbuild.stages.report_data import RESULT_FORMAT

BUDGET_S = 20.0
"""Time that one runtime may take for its samples; slower models get fewer, but at least MIN_SAMPLES."""
MIN_SAMPLES = 5
ROUNDS = 10
WARM_UP_S = 0.3
REWARM_S = 0.02
"""After a stop, caches are cold and threads asleep: calls for this long are not counted."""
SLOW_MS = 50.0
"""Calls that take longer do not notice a cold cache."""


@dataclass(frozen=True)
class Latency:
    """Times of one call in ms, over ``repeat`` samples of ``number`` calls each."""

    median: float
    p95: float
    min: float
    repeat: int
    number: int


def run(step: Step) -> None:
    """Publish result.json; TvmbuildError when the package's numbers are not the reference's."""
    options = step.options
    if not isinstance(options, BenchmarkStep):
        raise TypeError(f"{step.id} has the options of another stage")
    if options.device.kind != "local":
        raise TvmbuildError(
            f"{step.id}: benchmarking on a device of kind {options.device.kind} is not possible yet",
            f"write `device: none` for {options.target} in targets.yaml; its packages are still built",
        )
    package, reference = step.input("package"), step.input("reference")
    tvm_load = Load("tvm", package, reference, options.threads)
    ort_load = Load("onnxruntime", step.input("model"), reference, options.threads)
    report_progress("loading the package")
    with ExitStack() as stack:
        with device_lock("local", exclusive=False):
            tvm = stack.enter_context(start_worker(tvm_load))
            comparison = _check_numbers(step, tvm, reference)
        tvm.pause()  # it may wait long, and must not disturb what is being timed
        with device_lock("local", exclusive=True), start_worker(ort_load) as onnxruntime:
            ours, theirs = measure_interleaved(tvm, onnxruntime, options.benchmark.number, options.benchmark.repeat)
        memory = tvm.peak_memory_mb()
    coverage = read_package(package).info.coverage
    result = {
        "format": RESULT_FORMAT,
        "cell": step.subject,
        "target": options.target,
        "ok": True,
        "max_abs_error": comparison.max_abs_error,
        "max_rel_error": comparison.max_rel_error,
        "latency_ms": _as_json(ours),
        "onnxruntime_ms": _as_json(theirs),
        "ratio": round(ours.median / theirs.median, 4),
        "peak_memory_mb": None if memory is None else round(memory, 1),
        "package_bytes": package.stat().st_size,
        "threads": tvm.threads,
        "machine": cpu_name(),
        "coverage": {"tasks": coverage.tasks, "covered": coverage.covered},
    }
    write_json(step.output("result"), result)


def measure_interleaved(first: Worker, second: Worker, number: int, repeat: int) -> tuple[Latency, Latency]:
    """Time two workers in alternating rounds, the idle one stopped, so that both see the same machine."""
    workers = (first, second)
    samples: tuple[list[float], list[float]] = ([], [])
    for worker in workers:
        worker.pause()
    call_ms = []
    for index, worker in enumerate(workers):
        worker.resume()
        report_progress(f"warming up {('TVM', 'ONNX Runtime')[index]}")
        call_ms.append(worker.warm_up(WARM_UP_S))
        worker.pause()
    counts = [count_samples(ms, number, repeat) for ms in call_ms]
    for done in range(ROUNDS):
        report_progress(f"timing, round {done + 1} of {ROUNDS}")
        for index, worker in enumerate(workers):
            share = (done + 1) * counts[index] // ROUNDS - done * counts[index] // ROUNDS
            if share == 0:
                continue
            worker.resume()
            if call_ms[index] < SLOW_MS:
                worker.warm_up(REWARM_S)
            samples[index].extend(worker.time(number, share))
            worker.pause()
    for worker in workers:
        worker.resume()
    return summarize(samples[0], number), summarize(samples[1], number)


def count_samples(call_ms: float, number: int, repeat: int) -> int:
    """Return how many samples fit the time budget: ``repeat``, or fewer for a slow model, never under MIN_SAMPLES."""
    fitting = math.floor(BUDGET_S * 1000 / max(call_ms * number, 1e-6))
    return max(min(repeat, fitting), min(repeat, MIN_SAMPLES))


def summarize(samples: Sequence[float], number: int) -> Latency:
    """Return median, 95th percentile (nearest rank) and minimum."""
    ordered = sorted(samples)
    p95 = ordered[max(0, math.ceil(0.95 * len(ordered)) - 1)]
    return Latency(statistics.median(ordered), p95, ordered[0], len(ordered), number)


def _check_numbers(step: Step, worker: Worker, reference: Path) -> Comparison:
    options = step.options
    if not isinstance(options, BenchmarkStep):
        raise TypeError(f"{step.id} has the options of another stage")
    report_progress("comparing the outputs with the reference")
    got = worker.outputs()
    comparison = compare(got, read_reference(reference).outputs, options.tolerance)
    if comparison.problem is not None:
        raise TvmbuildError(
            f"{step.id}: the package computes wrong numbers: {comparison.problem}",
            f"largest error {comparison.max_abs_error:.3g} absolute, {comparison.max_rel_error:.3g} relative; if that "
            "is good enough for this model, raise its `tolerance:` in models.yaml",
        )
    return comparison


def _as_json(latency: Latency) -> dict[str, float | int]:
    return {
        "median": round(latency.median, 5),
        "p95": round(latency.p95, 5),
        "min": round(latency.min, 5),
        "repeat": latency.repeat,
        "number": latency.number,
    }
