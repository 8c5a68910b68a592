"""Times of kernels by a Vulkan device's own clock, during an ordinary run of a package."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tvmbuild.package.profile import VM_PREFIX, Event, is_kernel
from tvmbuild.package.runtime.library import call, has_function


def has_timestamps(index: int) -> bool:
    """Return whether tvmbuild's Vulkan runtime is loaded and device ``index`` has a clock that the runtime can read."""
    name = "tvmbuild_vulkan.devices"
    return has_function(name) and bool(json.loads(str(call(name)))[index]["timestamps"])


@dataclass
class _Call:
    """A call of the virtual machine, and the operations that it gave to the device."""

    name: str
    """The name of the called function."""
    on_host: bool
    """True if the function computes on the host, so that the host's clock times it."""
    operations: list[int] = field(default_factory=list)
    """The indices of the call's operations (kernels and copies) among all operations of the run."""
    start: int = 0
    """The beginning, in nanoseconds by the host's clock."""
    inside: int = 0
    """The time of the calls inside this call, in nanoseconds."""
    nanoseconds: int = 0
    """The time by the host's clock without the calls inside, in nanoseconds."""


class DeviceClock:
    """A recorder of a package's calls by the clock of the Vulkan device ``index``. It serves one thread at a time.

    Kernels and copies have the times of the device, without waits between them. Other functions compute on the host:
    they have the host's time, and begin after a wait for the device. ``wait`` waits for the device. ``kernels`` has the
    names of the package's kernels, or is None if they are unknown.
    """

    def __init__(self, index: int, wait: Callable[[], None], kernels: Collection[str] | None) -> None:
        self._index, self._wait, self._kernels = index, wait, kernels
        self._calls: list[_Call] = []
        self._open: list[_Call] = []
        self._given = 0

    def run(self, run_once: Callable[[], object]) -> list[Event]:
        """Run the model once by ``run_once`` and return the events of the run, in the order in which the calls began.

        The virtual machine's own work is an event only if it copies data on the device.
        """
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
        """Record that a call begins (``before``) or has ended. TVM's virtual machine calls this."""
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
