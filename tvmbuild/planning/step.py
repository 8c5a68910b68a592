"""The construction of one step of the plan: the inputs, outputs and options of a stage for its subject. Pure."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.kept_nodes import KEPT
from tvmbuild.base.layout import Layout
from tvmbuild.base.size_specs import SIZES
from tvmbuild.base.steps import AnyStep, Step
from tvmbuild.planning.availability import explain_step
from tvmbuild.planning.stages.table import stage_planner
from tvmbuild.planning.subject import Subject
from tvmbuild.stages.table import STAGES, Stage

_LARGEST = ("model", "reference")
"""The roles of files that a model has for each of its sizes and trials. The plain role is that of the largest."""
BY_SIZE = (*_LARGEST, "tasks", "schedule")
"""All roles of files for each size. The plain roles `tasks` and `schedule` have the Tasks of all sizes."""


def make_step(stage: Stage, subject: Subject, root: Path, capabilities: Capabilities) -> AnyStep:
    """Return the stage's step for the subject. ``capabilities`` describe the machine that runs it."""
    planner = stage_planner(stage.name)
    options = planner.make_options(subject, capabilities)
    inputs, outputs = dict[str, Path](), dict[str, Path]()
    for role in stage.inputs:
        inputs |= _list_inputs(role, subject, root)
    for role in stage.outputs:
        outputs |= _list_outputs(stage, role, subject, root)
    return Step(
        stage=stage.name,
        subject=subject.name,
        options=options,
        inputs=FrozenMap({**inputs, **planner.list_more_inputs(subject, root, options)}),
        outputs=FrozenMap(outputs),
        tools=FrozenMap(sorted(planner.list_tools(subject, capabilities).items())),
        version=stage.version,
        environment=FrozenMap(planner.list_environment(subject)),
        root=root,
        unavailable=explain_step(stage.name, subject, capabilities),
    )


def _list_inputs(role: str, subject: Subject, root: Path) -> dict[str, Path]:
    """Return the input files with this role, one for each size of the subject's model, by role and size."""
    if role in BY_SIZE or role == SIZES:
        return _list_outputs(_find_producer(role, subject), role, subject, root)
    path = _input(role, subject, root)
    return {} if path is None else {role: path}


def _list_outputs(stage: Stage, role: str, subject: Subject, root: Path) -> dict[str, Path]:
    """Return the output files with this role, one for each size of the subject's model, by role and size."""
    path, sizes = _path(stage, role, subject, root), subject.model.sizes
    if role == SIZES and sizes is None:
        return {}
    if role not in BY_SIZE or sizes is None:
        return {role: path}
    folder = Layout(root).sizes(path.parent)
    listed = (*sizes.others, *sizes.trials) if role in _LARGEST else sizes.choices
    return {role: path} | {size.role(role): folder / size.name / path.name for size in listed}


def _input(role: str, subject: Subject, root: Path) -> Path | None:
    """Return the input file with this role, or None if the YAML names none."""
    source = subject.model.source
    if role == KEPT and not subject.keeps:
        return None
    if role in {"source", "export"}:
        kind = "path" if role == "source" else role
        return root / source.location if source.kind == kind else None
    if role == "labels":
        return None if subject.model.labels is None else root / subject.model.labels
    return _path(_find_producer(role, subject), role, subject, root)


def _find_producer(role: str, subject: Subject) -> Stage:
    """Return the stage that writes the file with this role for the subject.

    If the subject is quantised and both simplify and quantize write it, this is quantize.
    """
    writers = [stage for stage in STAGES if role in stage.outputs]
    quantised = [stage for stage in writers if stage.scope == "quantised model" and subject.is_quantised]
    return (quantised or writers)[0]


def _path(stage: Stage, role: str, subject: Subject, root: Path) -> Path:
    """Return the path of the stage's output with this role for the subject."""
    layout = Layout(root)
    if role == "package":
        return layout.package(subject.model.name, subject.require_target().name)
    name = stage.outputs[role]
    if not stage.is_of_cells:
        return layout.model_file(subject.model.name, name)
    return layout.cell_file(subject.model.name, subject.require_target().name, name)
