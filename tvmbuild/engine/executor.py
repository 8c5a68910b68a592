"""Who runs a run's steps. It is handed in, and is this machine unless somebody says otherwise."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.steps import AnyStep
from tvmbuild.engine.process import run_process


class Executor(Protocol):
    """What runs steps, here or on other machines."""

    @property
    def is_here(self) -> bool:
        """Return whether it is this machine: what is timed on another one holds for that one."""

    def list_machines(self, commands: Sequence[str]) -> Sequence[Capabilities]:
        """Return what the other machines can do, none where it is this one.

        ``commands`` are the compilers that targets name as their linker.
        """

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:
        """Do what `run_process` does, and raise as it does; ``inputs`` are all files that the step reads."""


@dataclass(frozen=True)
class Here:
    """Runs steps on this machine. It pickles: doit's own processes get it too."""

    @property
    def is_here(self) -> bool:
        """Return True."""
        return True

    def list_machines(self, commands: Sequence[str]) -> Sequence[Capabilities]:  # noqa: ARG002 - the Protocol's
        """Return none."""
        return ()

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:  # noqa: ARG002 - as above
        """Run the step in a process of its own."""
        run_process(step)


HERE = Here()


class OneAtATime:
    """Runs steps on this machine for an executor of other machines, which is given all of them at once."""

    def __init__(self) -> None:
        self._alone = threading.Lock()

    def run(self, step: AnyStep) -> None:
        """Run the step when those before it have ended; raises as `run_process` does."""
        with self._alone:
            run_process(step)
