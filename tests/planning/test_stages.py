from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import NoDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.source_specs import Export, ExportFile, Source
from tvmbuild.base.specs import Accuracy, BenchmarkOptions, Keep, Metric, ModelSpec, TargetSpec
from tvmbuild.base.steps import (
    BenchmarkStep,
    CompileStep,
    KeepStep,
    QuantizeStep,
    SimplifyStep,
    TuneStep,
    ValidateStep,
    has_options,
)
from tvmbuild.planning.availability import explain_step, explain_unavailable
from tvmbuild.planning.stages.table import PLANNERS, stage_planner
from tvmbuild.planning.step import make_step
from tvmbuild.planning.subject import Subject
from tvmbuild.stages.table import STAGES, Stage
from tvmbuild.targets.table import TARGETS

ROOT = Path("/project")
HERE = Capabilities(
    codegens=tuple(TARGETS),
    runtimes=tuple(TARGETS),
    devices=tuple(TARGETS),
    vulkan_devices=("llvmpipe",),
    nvcc="12.6",
    machine="x86_64",
    host_cpu="zen4",
    runnable_cpus=("x86-64-v3",),
    versions=FrozenMap({"apache-tvm": "1", "nncf": "3", "ziglang": "6"}),
)
NOWHERE = Capabilities()
OPTIONS = {
    "simplify": SimplifyStep,
    "quantize": QuantizeStep,
    "keep": KeepStep,
    "tune": TuneStep,
    "compile": CompileStep,
    "validate": ValidateStep,
    "benchmark": BenchmarkStep,
}
MODEL = ModelSpec("net", Source("path", "net.onnx"))
QUANTISED = replace(MODEL, quantize=Quantize(Calibration("inputs", ("real.npz",))))
CPU: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
ATTRIBUTES: dict[str, Attributes] = {
    "llvm": CPU,
    "cuda": FrozenMap({"arch": "sm_90"}),
    "vulkan": FrozenMap(),
}
CELLS = [
    Subject(MODEL, TargetSpec(kind, kind, attributes, FrozenMap() if kind == "llvm" else CPU))
    for kind, attributes in ATTRIBUTES.items()
]
HALF = Subject(replace(MODEL, keep=Keep(("Softmax",))), TargetSpec("half", "cuda", ATTRIBUTES["cuda"], CPU, "fp16"))
SUBJECTS = {"model": [Subject(MODEL)], "quantised model": [Subject(QUANTISED)], "kept cell": [HALF], "cell": CELLS}
PAIRS = [(stage, subject) for stage in STAGES for subject in SUBJECTS[stage.scope]]
DESCRIPTIONS = {
    "simplify:net": "fetch, check and simplify net",
    "quantize:net": "quantise net by nncf",
    "keep:net@half": "find the operators of net that stay in float32 in fp16",
    "tune:net@llvm": "search schedules of net for llvm",
    "tune:net@cuda": "search schedules of net for cuda",
    "tune:net@vulkan": "search schedules of net for vulkan",
    "compile:net@llvm": "build the package of net for llvm (llvm x86-64-v3)",
    "compile:net@cuda": "build the package of net for cuda (cuda sm_90)",
    "compile:net@vulkan": "build the package of net for vulkan (vulkan)",
    "validate:net@llvm": "compute net@llvm on this CPU and compare its numbers",
    "validate:net@cuda": "compute net@cuda on this CPU and compare its numbers",
    "validate:net@vulkan": "compute net@vulkan here and compare its numbers",
    "benchmark:net@llvm": "check and time net@llvm",
    "benchmark:net@cuda": "check and time net@cuda",
    "benchmark:net@vulkan": "check and time net@vulkan",
}
SIMPLIFIED = {"model": "model.onnx", "reference": "reference.npz"}
_named = pytest.mark.parametrize(
    ("stage", "subject"), PAIRS, ids=[f"{stage.name}:{subject.name}" for stage, subject in PAIRS]
)
_of_cells = pytest.mark.parametrize(
    "stage", [stage for stage in STAGES if stage.scope == "cell"], ids=lambda stage: stage.name
)


def stage_of(name: str) -> Stage:
    return next(stage for stage in STAGES if stage.name == name)


def test_both_tables_have_the_same_stages_in_one_order() -> None:
    assert list(PLANNERS) == [stage.name for stage in STAGES]
    assert len({planner.about for planner in PLANNERS.values()}) == len(STAGES)
    assert list(ATTRIBUTES) == list(TARGETS)


def test_a_stage_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no stage tuning"):
        stage_planner("tuning")


@_named
def test_every_stage_answers_every_question(stage: Stage, subject: Subject) -> None:
    planner, step = stage_planner(stage.name), make_step(stage, subject, ROOT, HERE)
    assert type(step.options) is OPTIONS[stage.name]
    assert has_options(step, OPTIONS[stage.name])
    more = planner.list_more_inputs(subject, ROOT, step.options)
    assert list(more) == {"validate:net@vulkan": ["package"], "quantize:net": ["calibration 0"]}.get(step.id, [])
    assert step.inputs.keys() <= {*stage.inputs, *more}
    assert list(step.tools) == sorted(planner.list_tools(subject, HERE))
    assert step.tools.keys() >= ({"apache-tvm"} if stage.scope == "cell" else {"onnx"})
    assert step.environment.get("TVM_NUM_THREADS") == ("2" if stage.scope == "cell" else None)
    assert step.unavailable is None
    assert planner.describe(step) == DESCRIPTIONS[step.id]


@_named
def test_what_a_machine_lacks_is_the_tools_that_are_absent_and_a_reason(stage: Stage, subject: Subject) -> None:
    step = make_step(stage, subject, ROOT, NOWHERE)
    assert set(step.tools.values()) == {"absent"}
    assert (step.unavailable is None) is (stage.name in {"simplify", "keep"})


@_of_cells
def test_a_target_that_is_not_resolved_is_why_nothing_of_it_runs(stage: Stage) -> None:
    for cell in CELLS:
        target = replace(cell.require_target(), unresolved="lock it")
        assert explain_unavailable(stage.name, target, HERE) == "lock it"


@_of_cells
def test_a_stage_of_cells_is_not_one_of_models(stage: Stage) -> None:
    with pytest.raises(ValueError, match="net is not a cell"):
        make_step(stage, Subject(MODEL), ROOT, HERE)


@pytest.mark.parametrize("stage", ["simplify", "quantize"])
def test_a_stage_of_models_is_not_one_of_cells(stage: str) -> None:
    with pytest.raises(ValueError, match=f"{stage} is not a stage of a cell"):
        explain_unavailable(stage, CELLS[0].require_target(), HERE)


@_of_cells
def test_a_model_alone_says_nothing_of_a_stage_of_cells(stage: Stage) -> None:
    with pytest.raises(ValueError, match=f"{stage.name} is not a stage of a model"):
        explain_step(stage.name, Subject(MODEL), HERE)


def list_more_inputs(stage: Stage, subject: Subject, capabilities: Capabilities = HERE) -> dict[str, Path]:
    planner = stage_planner(stage.name)
    return planner.list_more_inputs(subject, ROOT, planner.make_options(subject, capabilities))


def test_files_that_the_model_names_are_more_inputs() -> None:
    files = (ExportFile("weights", Source("path", "w.bin")), ExportFile("far", Source("url", "https://a/b")))
    export = replace(MODEL, source=Source("export", "make.py", export=Export("make", files=files)))
    metric = Metric("score.py", "map50", "truths.json")
    pictures = replace(MODEL, accuracy=Accuracy("images", ("a.png", "b.png"), metric=metric))
    judging = {
        "sample 0": ROOT / "a.png",
        "sample 1": ROOT / "b.png",
        "metric": ROOT / "score.py",
        "truths": ROOT / "truths.json",
    }
    found = {
        stage.name: {
            role: path
            for model in (export, pictures)
            for role, path in list_more_inputs(stage, Subject(model, CELLS[0].target)).items()
        }
        for stage in STAGES
        if stage.scope != "quantised model"
    }
    assert {name: inputs for name, inputs in found.items() if inputs} == {
        "simplify": {"argument weights": ROOT / "w.bin"},
        "validate": judging,
        "benchmark": judging,
    }


INTEGERS = TargetSpec("vnni", "llvm", CPU, precision="int8")
FLOAT_FILES = {role: ROOT / f"build/models/net/{name}" for role, name in SIMPLIFIED.items()}
INTEGER_FILES = {role: ROOT / f"build/models/net/quantised/{name}" for role, name in SIMPLIFIED.items()}


@_of_cells
def test_cells_of_integers_read_what_quantize_wrote(stage: Stage) -> None:
    for model, target, files in (
        (QUANTISED, INTEGERS, INTEGER_FILES),
        (MODEL, INTEGERS, FLOAT_FILES),
        (QUANTISED, CELLS[0].target, FLOAT_FILES),
    ):
        step = make_step(stage, Subject(model, target), ROOT, HERE)
        assert {role: step.inputs[role] for role in SIMPLIFIED if role in stage.inputs} == {
            role: path for role, path in files.items() if role in stage.inputs
        }


def test_a_quantised_model_is_judged_beside_the_float_one() -> None:
    model = replace(QUANTISED, accuracy=Accuracy("inputs", ("seen.npz",)))
    step = make_step(stage_of("benchmark"), Subject(model, INTEGERS), ROOT, HERE)
    assert (step.inputs["model"], step.inputs["original"]) == (INTEGER_FILES["model"], FLOAT_FILES["model"])
    assert "original" not in make_step(stage_of("benchmark"), Subject(model, CELLS[0].target), ROOT, HERE).inputs


def test_a_search_for_operators_in_floats_reads_what_judges_it() -> None:
    asked = Quantize(Calibration("inputs", ("seen.npz",)), keep="auto")
    accuracy = Accuracy("images", ("a.png",), metric=Metric("score.py", "top1", drop=0.01))
    model = replace(MODEL, quantize=asked, accuracy=accuracy, preprocess=Preprocess())
    step = make_step(stage_of("quantize"), Subject(model), ROOT, HERE)
    told = {role: path for role, path in step.inputs.items() if role not in SIMPLIFIED}
    files = {"calibration 0": ROOT / "seen.npz", "sample 0": ROOT / "a.png", "metric": ROOT / "score.py"}
    assert (told, step.options.accuracy, step.options.preprocess) == (files, accuracy, Preprocess())  # type: ignore[union-attr]
    plain = replace(model, quantize=replace(asked, keep=None))
    step = make_step(stage_of("quantize"), Subject(plain), ROOT, HERE)
    assert [role for role in step.inputs if role not in SIMPLIFIED] == ["calibration 0", "sample 0"]
    assert step.options.accuracy == Accuracy("images", ("a.png",))  # type: ignore[union-attr]


def test_cells_of_16_bits_read_which_operators_stay_in_float32() -> None:
    kept = ROOT / "build/cells/net@half/kept.json"
    for name in ("tune", "compile", "validate"):
        assert make_step(stage_of(name), HALF, ROOT, HERE).inputs["kept"] == kept
        wide = Subject(HALF.model, replace(HALF.require_target(), precision="fp32"))
        assert "kept" not in make_step(stage_of(name), wide, ROOT, HERE).inputs
    searched = replace(HALF.model, keep=Keep(search=True), accuracy=Accuracy("inputs", ("seen.npz",), rms=0.1))
    step = make_step(stage_of("keep"), replace(HALF, model=searched), ROOT, HERE)
    assert (step.inputs["sample 0"], step.outputs["kept"]) == (ROOT / "seen.npz", kept)
    assert step.options.accuracy == searched.accuracy  # type: ignore[union-attr]


def test_what_quantises_is_a_tool_and_asked_for() -> None:
    def make(method: Any, here: Capabilities) -> tuple[dict[str, str], str | None]:
        subject = Subject(replace(MODEL, quantize=Quantize(Calibration("images", ("a.png",)), method)))
        step = make_step(stage_of("quantize"), subject, ROOT, here)
        return dict(step.tools), step.unavailable

    without = replace(HERE, versions=FrozenMap({"onnx": "1", "onnxruntime": "2"}))
    tools = {"onnx": "1", "onnxruntime": "2"}
    assert make("onnxruntime", without) == (tools, None)
    missing = "NNCF is not installed; `pip install 'tvmbuild[quantize]'`, or say `method: onnxruntime`"
    assert make("nncf", without) == ({**tools, "nncf": "absent"}, missing)
    assert make("nncf", HERE)[1] is None


def test_a_package_that_any_device_of_its_kind_runs_is_validated_by_the_one_that_is_here() -> None:
    llvm, cuda, vulkan = (replace(cell.require_target(), device=NoDevice()) for cell in CELLS)
    stage, package = stage_of("validate"), Layout(ROOT).package("net", "vulkan")

    def make(target: TargetSpec, here: Capabilities = HERE) -> tuple[Any, Path | None]:
        step = make_step(stage, Subject(MODEL, target), ROOT, here)
        assert isinstance(step.options, ValidateStep)
        return step.options.stand_in, step.inputs.get("package")

    many = replace(vulkan, host=FrozenMap({**CPU, "num-cores": 64}))
    assert make(vulkan) == make(many) == ("llvmpipe", package)
    nothing: tuple[None, None] = (None, None)
    assert make(llvm) == make(cuda) == nothing
    assert make(vulkan, replace(HERE, devices=("llvm",), vulkan_missing="driver")) == nothing
    board = replace(vulkan, host=FrozenMap({"mcpu": "cortex-a76", "mtriple": "aarch64-linux-gnu"}))
    assert make(board) == make(replace(vulkan, host=FrozenMap({**CPU, "mcpu": "x86-64-v4"}))) == nothing


def test_the_threads_of_each_stage() -> None:
    target = TargetSpec("pc", "llvm", CPU, benchmark=BenchmarkOptions(threads=1))
    found = {stage.name: stage_planner(stage.name).list_environment(Subject(MODEL, target)) for stage in STAGES}
    assert found == {
        "simplify": {},
        "quantize": {},
        "keep": {},
        "tune": {"OMP_WAIT_POLICY": "passive", "TVM_NUM_THREADS": "2"},
        "compile": {"TVM_NUM_THREADS": "2"},
        "validate": {"TVM_NUM_THREADS": "2"},
        "benchmark": {"TVM_NUM_THREADS": "1"},
    }


def test_a_gpu_that_is_only_built_for_leaves_threads_alone() -> None:
    away = [Subject(MODEL, replace(cell.require_target(), device=NoDevice())) for cell in CELLS[1:]]
    assert not any(stage_planner(stage.name).list_environment(cell) for stage in STAGES for cell in away)
