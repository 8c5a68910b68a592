"""The measurements of `tvmbuild run`, on a package that a worker has loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tvmbuild.devices.device import Device
from tvmbuild.devices.local.gpu_peak import measure_gpu_peak
from tvmbuild.devices.local.peak import measure_peak
from tvmbuild.devices.model_worker import Worker
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.profile import Clock, GraphTime, OperatorRow, Peak
from tvmbuild.package.timing import WARM_UP_S, Latency, count_samples, summarize


@dataclass(frozen=True)
class Measurement:
    """The latency of a package, and the machine that measured it.

    The fields from ``rows`` to ``peak`` are a profile. ``warnings`` are reasons to doubt the times.
    """

    machine: str
    threads: int
    latency: Latency
    rows: tuple[OperatorRow, ...] = ()
    clock: Clock = "host"
    graph: GraphTime | None = None
    peak: Peak | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Taken:
    """The memory that a package was seen to take. None: it is not known, or not asked for."""

    call: int | None
    """The bytes of a call, for workspace and scratch memory."""
    peak_mb: float | None
    """The peak of its process in MiB."""


def measure_latency(device: Device, worker: Worker, number: int, repeat: int | None) -> Measurement:
    """Measure the latency of the model in the worker, in ``repeat`` samples of ``number`` calls.

    If ``repeat`` is None, the model's speed decides. The caller must hold the device's lock.
    """
    worker.pause()
    watch = device.watch([worker])
    worker.resume()
    call_ms = worker.warm_up(WARM_UP_S)
    samples = worker.time(number, repeat or count_samples(call_ms * number))
    worker.pause()
    machine = watch.read()
    worker.resume()
    warnings = (machine.busy,) if machine.busy else ()
    return Measurement(machine.cpu, worker.threads, summarize(samples, number), warnings=warnings)


def choose_peak(device: Device, info: PackageInfo, threads: int) -> Callable[[], Peak] | None:
    """Return a function that measures the peaks of the package's device, or None if it is not on this machine."""
    if not device.here:
        return None
    return partial(measure_gpu_peak, info.target) if info.target.on_gpu else partial(measure_peak, threads)


def add_profile(worker: Worker, measurement: Measurement, peak: Callable[[], Peak] | None) -> Measurement:
    """Return the measurement with the operators' times, and the result of ``peak`` while the worker is paused.

    The caller must hold the device's lock. If a peak cannot be measured, that is only a warning, because the operators'
    times are good without it.
    """
    profile = worker.profile(measurement.latency.repeat)
    warnings = (*measurement.warnings, *profile.remarks)
    profiled = replace(measurement, rows=profile.rows, clock=profile.clock, graph=profile.graph, warnings=warnings)
    worker.pause()
    if peak is None:
        return profiled
    try:
        return replace(profiled, peak=peak())
    except TvmbuildError as error:
        return replace(profiled, warnings=(*profiled.warnings, error.message))
