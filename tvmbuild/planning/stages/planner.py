"""What planning asks of every stage. `planning/stages/table.py` has the stages. Pure."""

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
        """Return what the stage is told: all that can change its outputs."""

    def list_more_inputs(self, subject: Subject, root: Path, options: Options, /) -> dict[str, Path]:
        """Return role → path of the files that the stage reads besides its row's inputs."""

    def list_tools(self, subject: Subject, capabilities: Capabilities, /) -> dict[str, str]:
        """Return name → version of what can change its outputs, `absent` included: in the fingerprint."""

    def list_environment(self, subject: Subject, /) -> dict[str, str]:
        """Return variables of the stage's process: in the fingerprint."""

    # ------------------------------------------------------------------- where it runs

    def explain(self, target: TargetSpec, capabilities: Capabilities, /) -> str | None:
        """Return why it cannot run for the resolved target here, with the remedy; None: it can."""

    def explain_model(self, model: ModelSpec, capabilities: Capabilities, /) -> str | None:
        """Return the same of a stage of models."""

    # ------------------------------------------------------------------- saying

    @property
    def about(self) -> str:
        """What it does for all of its subjects, as doit lists it."""

    def describe(self, step: Step[Options], /) -> str:
        """Return what the step does, as doit lists it."""


class StageOfModels:
    """What every stage of models answers alike."""

    def explain(self, _target: TargetSpec, _capabilities: Capabilities) -> str | None:
        """Raise ValueError: no target has to do with it."""
        raise ValueError(f"{type(self).__name__.lower()} is no stage of a cell")


class StageOfCells:
    """What every stage of cells answers alike."""

    def explain_model(self, _model: ModelSpec, _capabilities: Capabilities) -> str | None:
        """Raise ValueError: a model alone has not to do with it."""
        raise ValueError(f"{type(self).__name__.lower()} is no stage of a model")
