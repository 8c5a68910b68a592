"""The interface of an opened device, for callers that run packages on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.model_worker import Load, Worker
from tvmbuild.package.metadata import PackageInfo


class Watching(Protocol):
    """A counter of other programs' work on the machine that runs the packages. It counts from its construction."""

    def read(self) -> MachineState:
        """Return the machine's state, with the work of other programs since construction."""


@dataclass(frozen=True)
class Device:
    """An opened device, on which packages can run."""

    name: str
    """The device's name in messages."""
    start: Callable[[Load], AbstractContextManager[Worker]]
    """Starts a worker process that has a model loaded. A device on another machine runs only one worker at a time."""
    watch: Callable[[Sequence[Worker]], Watching]
    """Starts to count the work of programs other than the given workers on the machine that runs these workers."""
    here: bool = True
    """True if the packages run on this machine, so that its lock must be held."""
    emulated: bool = False
    """True if the device is emulated, so that times on it mean nothing."""
    profiles: bool = True
    """True if the device can time each operator of a package."""
    lacks_frames: Callable[[PackageInfo], str | None] = lambda _: None
    """Returns the reason why the device cannot run a package's functions for frames, or None if it can."""

    @property
    def is_this_machine(self) -> bool:
        """Return whether the packages run on this machine itself.

        Only there, other runtimes can be timed in turns with a package.
        """
        return self.here and not self.emulated

    def tells_call_memory(self, info: PackageInfo) -> bool:
        """Return whether the memory of a package's calls can be measured: on this machine's CPU."""
        return self.is_this_machine and not info.target.on_gpu

    @contextmanager
    def hold(self, *, exclusive: bool) -> Iterator[None]:
        """Hold this machine's lock if the packages run here.

        The lock of any other device is held by its worker while the worker runs.
        """
        if not self.here:
            yield
            return
        with device_lock("local", exclusive=exclusive):
            yield
