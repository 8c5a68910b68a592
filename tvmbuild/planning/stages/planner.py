"""The interface of a stage's planner. `planning/stages/table.py` lists the planners. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import ModelSpec, TargetSpec
from tvmbuild.base.steps import Step, StepOptions
from tvmbuild.planning.subject import Subject

Options = TypeVar("Options", bound=StepOptions)


class StagePlanner(Protocol[Options]):
    """The planner of a stage: its options, inputs and tools. A subject or target always fits the stage's scope."""

    # ------------------------------------------------------------------- the step

    def make_options(self, subject: Subject, capabilities: Capabilities, /) -> Options:
        """Return the stage's options: everything that can change its outputs."""

    def list_more_inputs(self, subject: Subject, root: Path, options: Options, /) -> dict[str, Path]:
        """Return role → path of the files that the stage reads besides the inputs in its row of the stage table."""

    def list_tools(self, subject: Subject, capabilities: Capabilities, /) -> dict[str, str]:
        """Return name → version (or `absent`) of the tools that can change the outputs. They are in the fingerprint."""

    def list_environment(self, subject: Subject, /) -> dict[str, str]:
        """Return the environment variables of the stage's process. They are in the fingerprint."""

    # ------------------------------------------------------------------- where it runs

    def explain(self, target: TargetSpec, capabilities: Capabilities, /) -> str | None:
        """Return why the stage cannot run here for the resolved target, with the remedy, or None if it can."""

    def explain_model(self, model: ModelSpec, capabilities: Capabilities, /) -> str | None:
        """Return why the stage cannot run here for the model, with the remedy, or None if it can."""

    # ------------------------------------------------------------------- texts

    @property
    def about(self) -> str:
        """The purpose of the stage for all of its subjects, as doit lists it."""

    def describe(self, step: Step[Options], /) -> str:
        """Return the purpose of the step, as doit lists it."""


class StageOfModels:
    """The common part of planners for stages of models."""

    def explain(self, _target: TargetSpec, _capabilities: Capabilities) -> str | None:
        """Raise ValueError, because the stage has no target."""
        raise ValueError(f"{type(self).__name__.lower()} is not a stage of a cell")


class StageOfCells:
    """The common part of planners for stages of cells."""

    def explain_model(self, _model: ModelSpec, _capabilities: Capabilities) -> str | None:
        """Raise ValueError, because the stage needs a cell, not only a model."""
        raise ValueError(f"{type(self).__name__.lower()} is not a stage of a model")
