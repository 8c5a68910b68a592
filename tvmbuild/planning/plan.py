"""The Plan, made from models, targets and capabilities. Pure: it reads no file and starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import Project
from tvmbuild.base.steps import CALIBRATION, METRIC, ORIGINAL, SAMPLE, TRUTHS, AnyStep, Settings, TuneStep, has_options
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.availability import explain_step
from tvmbuild.planning.device_use import may_measure
from tvmbuild.planning.step import make_step
from tvmbuild.planning.subject import Subject
from tvmbuild.stages.table import STAGES, Stage

_GIVEN = frozenset({"source", "export", "labels", METRIC, ORIGINAL, TRUTHS})
"""The roles of files that the YAML names."""


@dataclass(frozen=True)
class Plan:
    """All steps of a project in the order of the stage table.

    Ids and outputs are unique. Each input is an output of a step, or a file that the YAML names.
    """

    root: Path
    steps: tuple[AnyStep, ...]

    def find(self, step_id: str) -> AnyStep | None:
        """Return the step with this id, or None if there is none."""
        return next((step for step in self.steps if step.id == step_id), None)


def make_plan(
    project: Project, capabilities: Capabilities, settings: Settings, workers: Sequence[Capabilities] = ()
) -> Plan:
    """Return the Plan with every step of the enabled models and the enabled targets that they include.

    ``workers`` are the machines that run the steps instead of this one, which the ``capabilities`` describe. Raises
    TvmbuildError if two steps have the same name or output, or if a file that the YAML names is an output.
    """
    models = [model for model in project.models if model.enabled]
    targets = [target for target in project.targets if target.enabled]
    in_cells = [Subject(model, target) for model in models for target in targets if model.includes(target.name)]
    quantised = {subject.model.name for subject in in_cells if subject.is_quantised}
    subjects = {
        "model": [Subject(model) for model in models],
        "quantised model": [Subject(model) for model in models if model.name in quantised],
        "kept cell": [each for each in in_cells if each.keeps],
        "cell": in_cells,
    }
    machines = workers or (capabilities,)

    def make(stage: Stage, subject: Subject) -> AnyStep:
        step = make_step(stage, subject, project.root, _choose_machine(stage, subject, machines))
        return replace(step, settings=_settings_of(step, settings, machines))

    steps = [make(stage, subject) for stage in STAGES for subject in subjects[stage.scope]]
    return Plan(project.root, _spread_unavailability(_validate(_drop_needless_validations(steps))))


def _drop_needless_validations(steps: Sequence[AnyStep]) -> list[AnyStep]:
    """Remove the validation of each cell whose benchmark can run, because the benchmark checks the outputs, too."""
    run = {step.subject for step in steps if step.stage == "benchmark" and step.unavailable is None}
    return [step for step in steps if step.stage != "validate" or step.subject not in run]


def _choose_machine(stage: Stage, subject: Subject, machines: Sequence[Capabilities]) -> Capabilities:
    """Return the first machine that can run the step, or the first machine of all if none can.

    Its tools become the tools of the step.
    """
    able = (each for each in machines if explain_step(stage.name, subject, each) is None)
    return next(able, machines[0])


def _settings_of(step: AnyStep, settings: Settings, machines: Sequence[Capabilities]) -> Settings:
    """Return the settings for the step. If no machine can time candidates, the mode of a tune step is `never`."""
    if has_options(step, TuneStep) and not any(may_measure(step.options, machine) for machine in machines):
        return replace(settings, tune="never")
    return settings


def _validate(steps: list[AnyStep]) -> list[AnyStep]:
    origins: dict[Path, str] = {}
    ids: set[str] = set()
    for step in steps:
        if step.id in ids:
            raise TvmbuildError(f"two steps are called {step.id}", "Give every model and every target its own name.")
        ids.add(step.id)
        for path in step.outputs.values():
            if path in origins:
                raise TvmbuildError(
                    f"{step.id} and {origins[path]} both write {path}",
                    "Rename the model or the target so that model@target is unambiguous.",
                )
            origins[path] = step.id
    for step in steps:
        for role, path in step.inputs.items():
            given = role in _GIVEN or role.startswith((SAMPLE, "argument ", CALIBRATION))
            if not given and path not in origins:
                raise ValueError(f"{step.id} reads {path}, which no step writes")
            if given and path in origins:
                raise TvmbuildError(
                    f"{step.id} reads {path}, which {origins[path]} writes",
                    "Keep what models.yaml names outside the build folder.",
                )
    return steps


def _spread_unavailability(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
    """Mark steps that read an output of an unavailable step as unavailable, too.

    Steps are in the order of their stages, so one pass is enough.
    """
    missing: dict[Path, AnyStep] = {}
    spread = []
    for step in steps:
        cause = next((missing[path] for path in step.inputs.values() if path in missing), None)
        result = step
        if step.unavailable is None and cause is not None:
            result = replace(step, unavailable=f"needs {cause.id}: {cause.unavailable}")
        if result.unavailable is not None:
            missing |= dict.fromkeys(result.outputs.values(), cause or result)
        spread.append(result)
    return tuple(spread)
