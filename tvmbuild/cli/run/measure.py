"""The measurements of `tvmbuild run` on a package that a worker holds."""

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
    """The latency and its machine; the fields from ``rows`` to ``peak`` are a profile's, ``warnings`` are doubts."""

    machine: str
    threads: int
    latency: Latency
    rows: tuple[OperatorRow, ...] = ()
    clock: Clock = "host"
    graph: GraphTime | None = None
    peak: Peak | None = None
    warnings: tuple[str, ...] = ()


def measure_latency(device: Device, worker: Worker, number: int, repeat: int | None) -> Measurement:
    """Time the model. The caller holds the device's lock."""
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
    """Return a function that measures the peaks of the package's device; None if it is not on this machine."""
    if not device.here:
        return None
    return partial(measure_gpu_peak, info.target) if info.target.on_gpu else partial(measure_peak, threads)


def add_profile(worker: Worker, measurement: Measurement, peak: Callable[[], Peak] | None) -> Measurement:
    """Time the operators, then ``peak``, while the worker is paused. The caller holds the device's lock.

    A peak that cannot be measured is only a warning: the operators' times are good without it.
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
