"""The executor of a run's steps. The caller passes it in; the default is this machine."""

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
    """The interface that runs steps, here or on other machines."""

    @property
    def is_here(self) -> bool:
        """Return whether it is this machine; timings on another machine hold for that one alone."""

    def list_machines(self, commands: Sequence[str]) -> Sequence[Capabilities]:
        """Return the capabilities of the other machines, empty if it is this one.

        ``commands`` are the compilers that targets name as their linker.
        """

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:
        """Run the step as `run_process` does, with the same errors; ``inputs`` are all files that the step reads."""


@dataclass(frozen=True)
class Here:
    """The executor on this machine. It can be pickled, because doit's own processes get it too."""

    @property
    def is_here(self) -> bool:
        """Return True."""
        return True

    def list_machines(self, commands: Sequence[str]) -> Sequence[Capabilities]:  # noqa: ARG002 - the Protocol's
        """Return an empty tuple."""
        return ()

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:  # noqa: ARG002 - as above
        """Run the step in a process of its own."""
        run_process(step)


HERE = Here()


class OneAtATime:
    """Runs steps on this machine, one at a time, for an executor of other machines that gets all steps at once."""

    def __init__(self) -> None:
        self._alone = threading.Lock()

    def run(self, step: AnyStep) -> None:
        """Run the step after those before it; raises as `run_process` does."""
        with self._alone:
            run_process(step)
