"""Times of kernels by the device's own clock, during an ordinary run of a package."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tvmbuild.package.profile import VM_PREFIX, Event, is_kernel
from tvmbuild.package.runtime.library import call, has_function


def has_timestamps(index: int) -> bool:
    """Return whether our runtime is loaded and the device has a clock that it may use."""
    name = "tvmbuild_vulkan.devices"
    return has_function(name) and bool(json.loads(str(call(name)))[index]["timestamps"])


@dataclass
class _Call:
    """A call of the virtual machine, and the run's operations that it gave to the device."""

    name: str
    on_host: bool
    operations: list[int] = field(default_factory=list)
    start: int = 0
    inside: int = 0
    """Nanoseconds of calls inside it."""
    nanoseconds: int = 0
    """The host's nanoseconds, without the calls inside."""


class DeviceClock:
    """A hook for the virtual machine, and the runs that it sees: one thread at a time.

    Kernels and copies have the device's times, without waits between them. A function that is neither in the package's
    ``kernels`` nor the virtual machine's computes on the host: it has the host's time, and begins when the device is
    done.
    """

    def __init__(self, index: int, wait: Callable[[], None], kernels: Collection[str] | None) -> None:
        self._index, self._wait, self._kernels = index, wait, kernels
        self._calls: list[_Call] = []
        self._open: list[_Call] = []
        self._given = 0

    def run(self, run_once: Callable[[], object]) -> list[Event]:
        """Return the events of one run, in order. The virtual machine's own work is an event only if it copies."""
        self._calls, self._open, self._given = [], [], 0
        call("tvmbuild_vulkan.profile_start", self._index)
        try:
            run_once()
        finally:
            told = str(call("tvmbuild_vulkan.profile_stop", self._index))
        times = [float(each["us"]) * 1e3 for each in json.loads(told)]
        return [
            (each.name, each.nanoseconds if each.on_host else round(sum(times[index] for index in each.operations)))
            for each in self._calls
            if each.operations or not each.name.startswith(VM_PREFIX)
        ]

    def note(self, _function: object, name: str, before: bool, _result: object, *_arguments: object) -> None:
        """Note that a call begins or has ended."""
        given = int(call("tvmbuild_vulkan.profile_count", self._index))
        if self._open:
            self._open[-1].operations += range(self._given, given)
        self._given = given
        if before:
            self._begin(_Call(str(name), not is_kernel(str(name), self._kernels)))
        else:
            self._end()

    def _begin(self, begun: _Call) -> None:
        self._calls.append(begun)
        self._open.append(begun)
        if begun.on_host:
            self._wait()
        begun.start = time.perf_counter_ns()

    def _end(self) -> None:
        ended = self._open.pop()
        if ended.on_host:
            self._wait()
        passed = time.perf_counter_ns() - ended.start
        ended.nanoseconds = passed - ended.inside
        if self._open:
            self._open[-1].inside += passed
