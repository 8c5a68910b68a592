"""The executor, which runs the steps of a run. The caller passes it in. The default runs them on this machine."""

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
    """The interface of an executor, which runs steps here or on other machines."""

    @property
    def is_here(self) -> bool:
        """Return whether steps run on this machine. Timings on another machine are valid for that machine only."""

    def list_machines(self, commands: Sequence[str]) -> Sequence[Capabilities]:
        """Return the capabilities of the other machines that run steps, or an empty sequence if steps run here.

        ``commands`` are the compilers that targets name as their linker.
        """

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:
        """Run the step as `run_process` does, with the same errors. ``inputs`` are all files that the step reads."""


@dataclass(frozen=True)
class Here:
    """The executor that runs steps on this machine. It can be pickled, because doit's own processes get it too."""

    @property
    def is_here(self) -> bool:
        """True, because steps run on this machine."""
        return True

    def list_machines(self, commands: Sequence[str]) -> Sequence[Capabilities]:  # noqa: ARG002 - the Protocol has it
        """Return an empty tuple, because no other machine runs steps."""
        return ()

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:  # noqa: ARG002 - as above
        """Run the step in its own process. Raises the errors of `run_process`."""
        run_process(step)


HERE = Here()


class OneAtATime:
    """A runner of one step at a time on this machine, for an executor of other machines that gets all steps at once."""

    def __init__(self) -> None:
        self._alone = threading.Lock()

    def run(self, step: AnyStep) -> None:
        """Run the step when no other step of this runner runs. Raises the errors of `run_process`."""
        with self._alone:
            run_process(step)
