"""The interface of a device for callers that run packages on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.model_worker import Load, Worker


class Watching(Protocol):
    """A counter of the other work on the machine where packages run. It counts from its construction."""

    def read(self) -> MachineState:
        """Return the machine's state since construction."""


@dataclass(frozen=True)
class Device:
    """A place where packages run."""

    name: str
    """The name in messages."""
    start: Callable[[Load], AbstractContextManager[Worker]]
    """Start a process that has a model loaded. On another machine it is the only one until it ends."""
    watch: Callable[[Sequence[Worker]], Watching]
    """Watch the machine on which those workers run."""
    here: bool = True
    """Whether this machine's cores do the work, so that its lock must be held."""
    emulated: bool = False
    """Whether its times mean nothing."""
    profiles: bool = True
    """Whether it can time each operator."""

    @property
    def takes_baselines(self) -> bool:
        """Return whether other runtimes can be timed in turns with a package."""
        return self.here and not self.emulated

    @contextmanager
    def hold(self, *, exclusive: bool) -> Iterator[None]:
        """Hold this machine's lock if its cores do the work. A worker holds any other device while it runs."""
        if not self.here:
            yield
            return
        with device_lock("local", exclusive=exclusive):
            yield
