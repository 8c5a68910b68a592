"""The interface of every stage's planning. `planning/stages/table.py` lists the stages. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import ModelSpec, TargetSpec
from tvmbuild.base.steps import Step, StepOptions
from tvmbuild.planning.subject import Subject

Options = TypeVar("Options", bound=StepOptions)


class StagePlanner(Protocol[Options]):
    """Plan a stage: its options, inputs and tools. A subject or target is one of the stage's scope."""

    # ------------------------------------------------------------------- the step

    def make_options(self, subject: Subject, capabilities: Capabilities, /) -> Options:
        """Return the stage's options: everything that can change its outputs."""

    def list_more_inputs(self, subject: Subject, root: Path, options: Options, /) -> dict[str, Path]:
        """Return role → path of the files that the stage reads besides its row's inputs."""

    def list_tools(self, subject: Subject, capabilities: Capabilities, /) -> dict[str, str]:
        """Return name → version of tools that can change its outputs (or `absent`); they are in the fingerprint."""

    def list_environment(self, subject: Subject, /) -> dict[str, str]:
        """Return variables of the stage's process; they are in the fingerprint."""

    # ------------------------------------------------------------------- where it runs

    def explain(self, target: TargetSpec, capabilities: Capabilities, /) -> str | None:
        """Return why it cannot run for the resolved target here, with the remedy; None if it can."""

    def explain_model(self, model: ModelSpec, capabilities: Capabilities, /) -> str | None:
        """Return the same for a stage of models."""

    # ------------------------------------------------------------------- texts

    @property
    def about(self) -> str:
        """The purpose of the stage for all of its subjects, as doit lists it."""

    def describe(self, step: Step[Options], /) -> str:
        """Return the purpose of the step, as doit lists it."""


class StageOfModels:
    """The common answers of all stages of models."""

    def explain(self, _target: TargetSpec, _capabilities: Capabilities) -> str | None:
        """Raise ValueError: the stage has no target."""
        raise ValueError(f"{type(self).__name__.lower()} is no stage of a cell")


class StageOfCells:
    """The common answers of all stages of cells."""

    def explain_model(self, _model: ModelSpec, _capabilities: Capabilities) -> str | None:
        """Raise ValueError: the stage needs a cell, not a model alone."""
        raise ValueError(f"{type(self).__name__.lower()} is no stage of a model")
