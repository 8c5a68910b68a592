"""One step of the plan: what a stage reads, writes and is told for its subject. Pure, as plan.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import ModelSpec, TargetSpec
from tvmbuild.base.steps import (
    AnyStep,
    BenchmarkStep,
    CompileStep,
    SimplifyStep,
    Step,
    StepOptions,
    TuneStep,
    ValidateStep,
)
from tvmbuild.devices.table import device_kind
from tvmbuild.planning.availability import explain_unavailable
from tvmbuild.stages.table import STAGES, Stage
from tvmbuild.targets.table import target_kind


@dataclass(frozen=True)
class Subject:
    """What a step is about; ``target`` is None for the stages of a model."""

    model: ModelSpec
    target: TargetSpec | None = None

    @property
    def name(self) -> str:
        """Return the model's name, or the cell's."""
        return self.model.name if self.target is None else f"{self.model.name}@{self.target.name}"


def make_step(stage: Stage, subject: Subject, root: Path, capabilities: Capabilities) -> AnyStep:
    """Return the stage's step for the subject; ``capabilities`` are of the machine that runs it."""
    target = subject.target
    return Step(
        stage=stage.name,
        subject=subject.name,
        options=_OPTIONS[stage.name](subject),
        inputs=FrozenMap(
            {
                **{role: path for role in stage.inputs if (path := _input(role, subject, root)) is not None},
                **(_list_samples(subject, root) if stage.name == "benchmark" else {}),
                **(_list_arguments(subject, root) if stage.name == "simplify" else {}),
            }
        ),
        outputs=FrozenMap({role: _path(stage, role, subject, root) for role in stage.outputs}),
        tools=_tools(stage.name, subject, capabilities),
        version=stage.version,
        environment=FrozenMap() if target is None else _environment(stage.name, target),
        root=root,
        unavailable=None if target is None else explain_unavailable(stage.name, target, capabilities),
    )


def _environment(stage: str, target: TargetSpec) -> FrozenMap[str, str]:
    if target_kind(target.kind).on_gpu and not device_kind(target.device).runs:
        return FrozenMap()
    # The cost model's threads must not spin on the cores that time candidates.
    passive = {"OMP_WAIT_POLICY": "passive"} if stage == "tune" else {}
    return FrozenMap({**passive, "TVM_NUM_THREADS": str(_threads(stage, target))})


def _threads(stage: str, target: TargetSpec) -> int:
    return target.benchmark.threads or target.num_cores if stage == "benchmark" else target.num_cores


def _simplify_options(subject: Subject) -> SimplifyStep:
    model = subject.model
    return SimplifyStep(model.name, model.source, model.inputs, model.simplify)


def _tune_options(subject: Subject) -> TuneStep:
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
        threads=target.num_cores,
        needs_records=target_kind(target.kind).needs_records,
    )


def _compile_options(subject: Subject) -> CompileStep:
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


def _validate_options(subject: Subject) -> ValidateStep:
    target = _target(subject)
    return ValidateStep(
        target=target.name,
        kind=target.kind,
        attributes=target.attributes,
        host=target.host,
        tolerance=subject.model.tolerance_in(target.precision),
        precision=target.precision,
    )


def _benchmark_options(subject: Subject) -> BenchmarkStep:
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


_OPTIONS: dict[str, Callable[[Subject], StepOptions]] = {
    "simplify": _simplify_options,
    "tune": _tune_options,
    "compile": _compile_options,
    "validate": _validate_options,
    "benchmark": _benchmark_options,
}


def _target(subject: Subject) -> TargetSpec:
    if subject.target is None:
        raise ValueError(f"{subject.name} is no cell")
    return subject.target


def _input(role: str, subject: Subject, root: Path) -> Path | None:
    """Return the file of that role; None where the YAML names none."""
    source = subject.model.source
    if role in {"source", "export"}:
        kind = "path" if role == "source" else role
        return root / source.location if source.kind == kind else None
    if role == "labels":
        return None if subject.model.labels is None else root / subject.model.labels
    return _path(_PRODUCERS[role], role, subject, root)


def _list_samples(subject: Subject, root: Path) -> dict[str, Path]:
    """Return the files of real inputs, each in a role of its own, `sample 0` first."""
    accuracy = subject.model.accuracy
    return {f"sample {i}": root / path for i, path in enumerate(accuracy.paths)} if accuracy else {}


def _list_arguments(subject: Subject, root: Path) -> dict[str, Path]:
    """Return the project's own files among the arguments of an export, in the role `argument NAME`."""
    export = subject.model.source.export
    files = export.files if export else ()
    return {f"argument {file.name}": root / file.source.location for file in files if file.source.kind == "path"}


def _path(stage: Stage, role: str, subject: Subject, root: Path) -> Path:
    """Where the stage writes its output of that role for the subject."""
    layout = Layout(root)
    if role == "package":
        return layout.package(subject.model.name, _target(subject).name)
    name = stage.outputs[role]
    if stage.scope == "model":
        return layout.model_file(subject.model.name, name)
    return layout.cell_file(subject.model.name, _target(subject).name, name)


_PRODUCERS = {role: stage for stage in STAGES for role in stage.outputs}
"""Which stage writes the files of a role that others read; `info` is read by no stage."""

_PYTHON_TOOLS = {
    "simplify": ("onnx", "onnxsim", "onnxruntime"),
    "tune": ("apache-tvm", "apache-tvm-ffi"),
    "compile": ("apache-tvm", "apache-tvm-ffi"),
    "validate": ("apache-tvm", "apache-tvm-ffi"),
    "benchmark": ("apache-tvm", "apache-tvm-ffi"),
}


def _tools(stage: str, subject: Subject, capabilities: Capabilities) -> FrozenMap[str, str]:
    names, target = _PYTHON_TOOLS[stage], subject.target
    tools = {name: capabilities.version(name) or "absent" for name in names}
    baselines = target.benchmark.baselines if stage == "benchmark" and target is not None else ()
    for name in ("onnxruntime", "openvino"):
        if name in baselines or (stage == "benchmark" and name == "onnxruntime" and subject.model.accuracy):
            tools[name] = capabilities.version(name) or "absent"
    untuned = "tvm-untuned" in baselines  # compiled by the benchmark itself, linked as `auto`
    if stage in {"tune", "compile", "validate"} or untuned:
        tools["llvm"] = capabilities.llvm or "absent"
    if untuned:
        tools["ziglang"] = capabilities.version("ziglang") or "absent"
    if stage == "compile" and target is not None:
        if target.link == "auto":
            tools["ziglang"] = capabilities.version("ziglang") or "absent"
        else:
            tools[target.link] = capabilities.linkers.get(target.link, "absent")
        tools |= target_kind(target.kind).list_tools(capabilities)
    return FrozenMap(sorted(tools.items()))
