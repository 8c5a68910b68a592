"""Where a run's steps are executed when that is not here: what `tvmbuild build --scheduler` sets for its process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tvmbuild.capabilities import Capabilities
from tvmbuild.engine.process import run_process
from tvmbuild.steps import AnyStep


class Elsewhere(Protocol):
    """Other machines."""

    def list_machines(self, commands: Sequence[str]) -> Sequence[Capabilities]:
        """Return what they can do; ``commands`` are the compilers that targets name as their linker."""

    def run(self, step: AnyStep, inputs: Iterable[Path]) -> None:
        """Do there what `run_process` does here; ``inputs`` are all files that the step reads."""


_used: list[Elsewhere] = []
_alone = threading.Lock()


@contextmanager
def use_elsewhere(elsewhere: Elsewhere) -> Iterator[None]:
    """Have this process's steps executed there until the context ends."""
    _used.append(elsewhere)
    try:
        yield
    finally:
        _used.remove(elsewhere)


def find_elsewhere() -> Elsewhere | None:
    """Return what is used now; None: steps run here."""
    return _used[-1] if _used else None


def execute(step: AnyStep, inputs: Iterable[Path]) -> None:
    """Run the step's stage where it belongs; raises as `run_process` does."""
    elsewhere = find_elsewhere()
    if elsewhere is None:
        run_process(step)
    elif step.needs:
        elsewhere.run(step, inputs)
    else:
        with _alone:  # doit starts all steps at once: it counts on other machines
            run_process(step)
