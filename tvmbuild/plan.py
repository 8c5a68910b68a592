"""Models, targets and capabilities to a Plan. Pure: reads no file, starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from tvmbuild.availability import explain_unavailable, may_measure
from tvmbuild.capabilities import Capabilities
from tvmbuild.errors import TvmbuildError
from tvmbuild.layout import Layout
from tvmbuild.placement import list_needs
from tvmbuild.specs import (
    BenchmarkStep,
    CompileStep,
    ModelSpec,
    Project,
    Settings,
    SimplifyStep,
    Step,
    StepOptions,
    TargetSpec,
    TuneStep,
)
from tvmbuild.stage_table import STAGES, Stage


@dataclass(frozen=True)
class Plan:
    """All steps of a project in the order of the stage table: unique ids and outputs, no input without an origin."""

    root: Path
    steps: tuple[Step, ...]

    def find(self, step_id: str) -> Step | None:
        """Return the step of that id, or None."""
        return next((step for step in self.steps if step.id == step_id), None)


@dataclass(frozen=True)
class _Subject:
    """What a step is about; ``target`` is None for the stages of a model."""

    model: ModelSpec
    target: TargetSpec | None = None

    @property
    def name(self) -> str:
        return self.model.name if self.target is None else f"{self.model.name}@{self.target.name}"


def make_plan(
    project: Project, capabilities: Capabilities, settings: Settings, workers: Sequence[Capabilities] = ()
) -> Plan:
    """Return every step of the enabled models and the enabled targets that they include.

    ``workers``: the machines that run the steps, where this one, of the ``capabilities``, does not.
    """
    models = [model for model in project.models if model.enabled]
    targets = [target for target in project.targets if target.enabled]
    cells = [(model, target) for model in models for target in targets if includes(model, target.name)]
    subjects = {
        "model": [_Subject(model) for model in models],
        "cell": [_Subject(model, target) for model, target in cells],
    }
    machines = workers or (capabilities,)

    def make(stage: Stage, subject: _Subject) -> Step:
        step = _make_step(stage, subject, project.root, _choose_machine(stage, subject, machines))
        step = replace(step, settings=_settings_of(step, settings, machines))
        return replace(step, needs=list_needs(step, subject.target, capabilities.host_cpu))

    steps = [make(stage, subject) for stage in STAGES for subject in subjects[stage.scope]]
    return Plan(project.root, _spread_unavailability(_validate(steps)))


def _choose_machine(stage: Stage, subject: _Subject, machines: Sequence[Capabilities]) -> Capabilities:
    """Return the first that can run the step: its tools are the step's; where none can, the first."""
    target = subject.target
    able = (each for each in machines if target is None or explain_unavailable(stage.name, target, each) is None)
    return next(able, machines[0])


def includes(model: ModelSpec, target: str) -> bool:
    """Say whether the model is built for the target."""
    return any(fnmatchcase(target, glob) for glob in model.include) and not any(
        fnmatchcase(target, glob) for glob in model.exclude
    )


def _make_step(stage: Stage, subject: _Subject, root: Path, capabilities: Capabilities) -> Step:
    target = subject.target
    return Step(
        stage=stage.name,
        subject=subject.name,
        options=_OPTIONS[stage.name](subject),
        inputs=(
            *((role, path) for role in stage.inputs if (path := _input(role, subject, root)) is not None),
            *(_list_samples(subject, root) if stage.name == "benchmark" else ()),
            *(_list_arguments(subject, root) if stage.name == "simplify" else ()),
        ),
        outputs=tuple((role, _path(stage, role, subject, root)) for role, _ in stage.outputs),
        tools=_tools(stage.name, subject, capabilities),
        version=stage.version,
        environment=() if target is None else _environment(stage.name, target),
        root=root,
        unavailable=None if target is None else explain_unavailable(stage.name, target, capabilities),
    )


def _environment(stage: str, target: TargetSpec) -> tuple[tuple[str, str], ...]:
    if target.kind != "llvm" and (target.kind != "cuda" or target.device.kind == "none"):
        return ()
    # The cost model's threads must not spin on the cores that time candidates.
    passive = (("OMP_WAIT_POLICY", "passive"),) if stage == "tune" else ()
    return (*passive, ("TVM_NUM_THREADS", str(_threads(stage, target))))


def _threads(stage: str, target: TargetSpec) -> int:
    return target.benchmark.threads or target.num_cores if stage == "benchmark" else target.num_cores


def _simplify_options(subject: _Subject) -> SimplifyStep:
    model = subject.model
    return SimplifyStep(model.name, model.source, model.inputs, model.simplify)


def _tune_options(subject: _Subject) -> TuneStep:
    target = _target(subject)
    return TuneStep(
        target=target.name,
        kind=target.kind,
        attributes=target.attributes,
        host=target.host,
        measured_on=target.measured_on,
        device=target.device,
        tune=target.tune,
        precision=target.precision,
    )


def _compile_options(subject: _Subject) -> CompileStep:
    target = _target(subject)
    return CompileStep(
        model=subject.model.name,
        target=target.name,
        kind=target.kind,
        attributes=target.attributes,
        host=target.host,
        link=target.link,
        glibc=target.glibc,
        preprocess=subject.model.preprocess,
        precision=target.precision,
    )


def _benchmark_options(subject: _Subject) -> BenchmarkStep:
    target = _target(subject)
    return BenchmarkStep(
        target=target.name,
        kind=target.kind,
        device=target.device,
        threads=_threads("benchmark", target),
        tolerance=subject.model.tolerance_in(target.precision),
        benchmark=target.benchmark,
        accuracy=subject.model.accuracy,
    )


_OPTIONS: dict[str, Callable[[_Subject], StepOptions]] = {
    "simplify": _simplify_options,
    "tune": _tune_options,
    "compile": _compile_options,
    "benchmark": _benchmark_options,
}


def _target(subject: _Subject) -> TargetSpec:
    if subject.target is None:
        raise ValueError(f"{subject.name} is no cell")
    return subject.target


def _input(role: str, subject: _Subject, root: Path) -> Path | None:
    """Return the file of that role; None where the YAML names none."""
    source = subject.model.source
    if role in {"source", "export"}:
        kind = "path" if role == "source" else role
        return root / source.location if source.kind == kind else None
    if role == "labels":
        return None if subject.model.labels is None else root / subject.model.labels
    return _path(_PRODUCERS[role], role, subject, root)


def _list_samples(subject: _Subject, root: Path) -> tuple[tuple[str, Path], ...]:
    """Return the files of real inputs, each in a role of its own, `sample 0` first."""
    accuracy = subject.model.accuracy
    return tuple((f"sample {i}", root / path) for i, path in enumerate(accuracy.paths)) if accuracy else ()


def _list_arguments(subject: _Subject, root: Path) -> tuple[tuple[str, Path], ...]:
    """Return the project's own files among the arguments of an export, in the role `argument NAME`."""
    export = subject.model.source.export
    files = export.files if export else ()
    return tuple((f"argument {file.name}", root / file.source.location) for file in files if file.source.kind == "path")


def _path(stage: Stage, role: str, subject: _Subject, root: Path) -> Path:
    """Where the stage writes its output of that role for the subject."""
    layout = Layout(root)
    if role == "package":
        return layout.package(subject.model.name, _target(subject).name)
    name = dict(stage.outputs)[role]
    if stage.scope == "model":
        return layout.model_file(subject.model.name, name)
    return layout.cell_file(subject.model.name, _target(subject).name, name)


_PRODUCERS = {role: stage for stage in STAGES for role, _ in stage.outputs}
"""Which stage writes the files of a role that others read; `info` is read by no stage."""

_PYTHON_TOOLS = {
    "simplify": ("onnx", "onnxsim", "onnxruntime"),
    "tune": ("apache-tvm", "apache-tvm-ffi"),
    "compile": ("apache-tvm", "apache-tvm-ffi"),
    "benchmark": ("apache-tvm", "apache-tvm-ffi"),
}


def _tools(stage: str, subject: _Subject, capabilities: Capabilities) -> tuple[tuple[str, str], ...]:
    names, target = _PYTHON_TOOLS[stage], subject.target
    tools = {name: capabilities.version(name) or "absent" for name in names}
    baselines = target.benchmark.baselines if stage == "benchmark" and target is not None else ()
    for name in ("onnxruntime", "openvino"):
        if name in baselines or (stage == "benchmark" and name == "onnxruntime" and subject.model.accuracy):
            tools[name] = capabilities.version(name) or "absent"
    untuned = "tvm-untuned" in baselines  # compiled by the benchmark itself, linked as `auto`
    if stage in {"tune", "compile"} or untuned:
        tools["llvm"] = capabilities.llvm or "absent"
    if untuned:
        tools["ziglang"] = capabilities.version("ziglang") or "absent"
    if stage == "compile" and target is not None:
        if target.link == "auto":
            tools["ziglang"] = capabilities.version("ziglang") or "absent"
        else:
            tools[target.link] = dict(capabilities.linkers).get(target.link, "absent")
        if target.kind == "cuda":
            tools |= {"nvcc": capabilities.nvcc or "absent", "nvrtc": capabilities.nvrtc or "absent"}
    return tuple(sorted(tools.items()))


def _settings_of(step: Step, settings: Settings, machines: Sequence[Capabilities]) -> Settings:
    """Return what the step is asked for: a device that cannot be asked makes tuning act as `never`."""
    options = step.options
    if isinstance(options, TuneStep) and not any(may_measure(options, machine) for machine in machines):
        return replace(settings, tune="never")
    return settings


def _validate(steps: list[Step]) -> list[Step]:
    origins: dict[Path, str] = {}
    ids: set[str] = set()
    for step in steps:
        if step.id in ids:
            raise TvmbuildError(f"two steps are called {step.id}", "Give every model and every target its own name.")
        ids.add(step.id)
        for _, path in step.outputs:
            if path in origins:
                raise TvmbuildError(
                    f"{step.id} and {origins[path]} both write {path}",
                    "Rename the model or the target so that model@target is unambiguous.",
                )
            origins[path] = step.id
    for step in steps:
        for role, path in step.inputs:
            given = role in {"source", "export", "labels"} or role.startswith(("sample ", "argument "))
            if not given and path not in origins:
                raise ValueError(f"{step.id} reads {path}, which no step writes")
            if given and path in origins:
                raise TvmbuildError(
                    f"{step.id} reads {path}, which {origins[path]} writes",
                    "Keep what models.yaml names outside the build folder.",
                )
    return steps


def _spread_unavailability(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Make what reads an output of an unavailable step unavailable too; stage order makes one pass enough."""
    missing: dict[Path, Step] = {}
    spread = []
    for step in steps:
        cause = next((missing[path] for _, path in step.inputs if path in missing), None)
        result = step
        if step.unavailable is None and cause is not None:
            result = replace(step, unavailable=f"needs {cause.id}: {cause.unavailable}")
        if result.unavailable is not None:
            missing |= dict.fromkeys((path for _, path in result.outputs), cause or result)
        spread.append(result)
    return tuple(spread)
