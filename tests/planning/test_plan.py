from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import NoDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.nvrtc import INSTALL
from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import Accuracy, BenchmarkOptions, ModelSpec, Project, TargetSpec, TuneOptions
from tvmbuild.base.steps import Settings, TuneStep
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.plan import Plan, make_plan

ROOT = Path("/project")
HERE = Capabilities(
    codegens=("llvm", "cuda"),
    runtimes=("llvm",),
    devices=("llvm",),
    nvcc="12.6",
    llvm="22",
    machine="x86_64",
    host_cpu="zen4",
    cpu_features=("avx", "avx2"),
    runnable_cpus=("generic", "x86-64-v3"),
    versions=FrozenMap(
        {"apache-tvm": "1", "apache-tvm-ffi": "2", "onnx": "3", "onnxruntime": "5", "onnxsim": "4", "ziglang": "6"}
    ),
)
MODEL = ModelSpec("net", Source("path", "net.onnx"))
V3 = TargetSpec("v3", "llvm", FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2}))


def _plan(
    *targets: TargetSpec, models: tuple[ModelSpec, ...] = (MODEL,), here: Capabilities = HERE, tune: str = "missing"
) -> Plan:
    assert tune in {"missing", "full"}
    return make_plan(Project(ROOT, models, targets), here, Settings(tune="full" if tune == "full" else "missing"))


def test_steps_files_and_environment_of_one_cell() -> None:
    plan = _plan(replace(V3, benchmark=BenchmarkOptions(threads=1)))
    cell = "build/cells/net@v3"
    rows = [
        (
            step.id,
            {role: str(path.relative_to(ROOT)) for role, path in step.inputs.items()},
            {role: str(path.relative_to(ROOT)) for role, path in step.outputs.items()},
            dict(step.environment),
        )
        for step in plan.steps
    ]
    model = "build/models/net/model.onnx"
    assert rows == [
        (
            "simplify:net",
            {"source": "net.onnx"},
            {"model": model, "reference": "build/models/net/reference.npz", "info": "build/models/net/simplify.json"},
            {},
        ),
        (
            "tune:net@v3",
            {"model": model},
            {"tasks": f"{cell}/tasks.json", "schedule": f"{cell}/schedule.json", "info": f"{cell}/tune.json"},
            {"OMP_WAIT_POLICY": "passive", "TVM_NUM_THREADS": "2"},
        ),
        (
            "compile:net@v3",
            {"model": model, "schedule": f"{cell}/schedule.json"},
            {"package": f"{cell}/net-v3.tar"},
            {"TVM_NUM_THREADS": "2"},
        ),
        (
            "benchmark:net@v3",
            {"package": f"{cell}/net-v3.tar", "model": model, "reference": "build/models/net/reference.npz"},
            {"result": f"{cell}/result.json"},
            {"TVM_NUM_THREADS": "1"},
        ),
    ]
    assert all(step.unavailable is None for step in plan.steps)


def test_tools_are_those_that_can_change_the_output() -> None:
    cuda = TargetSpec("gpu", "cuda", FrozenMap({"arch": "sm_90"}), host=V3.attributes, device=NoDevice())
    tools = {step.id: step.tools for step in _plan(V3, cuda, replace(V3, name="g", link="gcc")).steps}
    tvm = {"apache-tvm": "1", "apache-tvm-ffi": "2"}
    assert tools["simplify:net"] == {"onnx": "3", "onnxsim": "4", "onnxruntime": "5"}
    assert tools["tune:net@v3"] == {**tvm, "llvm": "22"}
    assert tools["compile:net@v3"] == {**tvm, "llvm": "22", "ziglang": "6"}
    assert tools["compile:net@gpu"] == {**tvm, "llvm": "22", "ziglang": "6", "nvcc": "12.6", "nvrtc": "absent"}
    assert tools["compile:net@g"] == {**tvm, "llvm": "22", "gcc": "absent"}
    assert tools["benchmark:net@v3"] == {**tvm, "onnxruntime": "5"}


def test_a_target_that_is_off_has_no_cells() -> None:
    plan = _plan(V3, replace(V3, name="off", enabled=False))
    assert {step.subject for step in plan.steps} == {"net", "net@v3"}


def test_labels_are_an_input_of_compile_and_url_sources_are_none() -> None:
    model = replace(MODEL, labels="names.txt", source=Source("url", "https://a/b.onnx", sha256="0" * 64))
    plan = _plan(V3, models=(model,))
    simplify, compile_ = plan.find("simplify:net"), plan.find("compile:net@v3")
    assert simplify is not None
    assert simplify.inputs == {}
    assert compile_ is not None
    assert compile_.input("labels") == ROOT / "names.txt"


def test_disabled_models_and_excluded_targets_have_no_steps() -> None:
    models = (replace(MODEL, enabled=False), replace(MODEL, name="b", include=("v*",), exclude=("v3",)))
    plan = _plan(V3, replace(V3, name="v4"), replace(V3, name="pi"), models=models)
    assert [step.id for step in plan.steps] == ["simplify:b", "tune:b@v4", "compile:b@v4", "benchmark:b@v4"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [(("*",), (), True), (("x*",), (), True), (("y*",), (), False), (("*",), ("x86*",), False), ((), (), False)],
)
def test_includes(include: tuple[str, ...], exclude: tuple[str, ...], expected: bool) -> None:
    assert replace(MODEL, include=include, exclude=exclude).includes("x86-64-v3") is expected


def test_one_plan_is_equal_to_the_next() -> None:
    assert _plan(V3) == _plan(V3)


def test_threads_of_a_gpu_target_are_left_alone() -> None:
    cuda = TargetSpec("gpu", "cuda", FrozenMap({"arch": "sm_90"}), host=V3.attributes, device=NoDevice())
    assert all(step.environment == {} for step in _plan(cuda).steps)


def test_options_hold_only_what_changes_the_output() -> None:
    def options(target: TargetSpec, step_id: str) -> object:
        step = _plan(target).find(step_id)
        assert step is not None
        return step.options

    tuned = replace(V3, tune=TuneOptions(trials=1))
    linked = replace(V3, glibc="2.31")
    timed = replace(V3, benchmark=BenchmarkOptions(repeat=7))
    changed = {
        name: [
            step
            for step in ("tune", "compile", "benchmark")
            if options(V3, f"{step}:net@v3") != options(target, f"{step}:net@v3")
        ]
        for name, target in (("tune", tuned), ("glibc", linked), ("benchmark", timed))
    }
    assert changed == {"tune": ["tune"], "glibc": ["compile"], "benchmark": ["benchmark"]}


def test_an_unavailable_step_makes_what_needs_it_unavailable() -> None:
    vulkan = TargetSpec("nuc", "vulkan", FrozenMap(), host=V3.attributes)
    reasons = {step.id: step.unavailable for step in _plan(vulkan).steps}
    assert reasons["simplify:net"] is None
    assert str(reasons["tune:net@nuc"]).startswith("the runtime that Vulkan code is packed with is not compiled")
    assert str(reasons["compile:net@nuc"]).startswith("the runtime that Vulkan code is packed with is not compiled")
    cuda = TargetSpec("gpu", "cuda", FrozenMap({"arch": "sm_90"}), host=V3.attributes)
    here = replace(HERE, nvcc=None, runtimes=("llvm", "cuda"), devices=("llvm", "cuda"))
    reasons = {step.id: step.unavailable for step in _plan(cuda, here=here).steps}
    assert reasons["tune:net@gpu"] is None
    assert reasons["benchmark:net@gpu"] == (
        f"needs compile:net@gpu: neither nvcc nor NVRTC 12 is here; `{INSTALL}` brings NVRTC, no GPU needed"
    )


def test_a_model_is_quantised_once_where_a_target_asks_for_it() -> None:
    model = replace(MODEL, quantize=Quantize(Calibration("inputs", ("real.npz",))))
    integers, more = (replace(V3, name=name, precision="int8") for name in ("int8", "more"))
    reason = "NNCF is not installed; `pip install 'tvmbuild[quantize]'`, or say `method: onnxruntime`"
    reasons = {
        step.id: step.unavailable for step in _plan(V3, integers, more, models=(model, replace(MODEL, name="b"))).steps
    }
    assert [name for name in reasons if name.startswith("quantize")] == ["quantize:net"]
    assert reasons["quantize:net"] == reason
    assert {name for name, why in reasons.items() if why == f"needs quantize:net: {reason}"} == {
        f"{stage}:net@{target}" for stage in ("tune", "compile", "benchmark") for target in ("int8", "more")
    }
    assert all(reasons[name] is None for name in reasons if "net@v3" in name or "b@" in name)
    assert not any(step.stage == "quantize" for step in _plan(V3, replace(more, enabled=False), models=(model,)).steps)
    excluding = replace(model, exclude=("int8",))
    assert not any(step.stage == "quantize" for step in _plan(V3, integers, models=(excluding,)).steps)


def test_tuning_without_a_device_acts_as_never_and_is_available() -> None:
    plan = _plan(V3, replace(V3, name="away", device=NoDevice()), tune="full")
    modes = {step.id: step.settings.tune for step in plan.steps if isinstance(step.options, TuneStep)}
    assert modes == {"tune:net@v3": "full", "tune:net@away": "never"}
    away = plan.find("tune:net@away")
    assert away is not None
    assert away.unavailable is None


def test_two_steps_with_one_name_are_refused() -> None:
    with pytest.raises(TvmbuildError, match="two steps are called simplify:net"):
        _plan(V3, models=(MODEL, MODEL))


def test_a_source_that_is_an_output_is_refused() -> None:
    model = replace(MODEL, source=Source("path", "build/models/net/model.onnx"))
    with pytest.raises(TvmbuildError, match="which simplify:net writes"):
        _plan(V3, models=(model,))


def test_a_step_that_is_not_there_is_none() -> None:
    assert _plan(V3).find("compile:net@pi4") is None


def test_a_benchmark_depends_on_the_baselines_that_it_asks_for() -> None:
    def tools(*baselines: str) -> set[str]:
        step = _plan(replace(V3, benchmark=BenchmarkOptions(baselines=baselines))).find("benchmark:net@v3")
        assert step is not None
        return set(step.tools)

    plain = {"apache-tvm", "apache-tvm-ffi"}
    assert tools() == plain
    assert tools("onnxruntime") == {*plain, "onnxruntime"}
    assert tools("openvino") == {*plain, "openvino"}
    assert tools("onnxruntime", "tvm-untuned") == {*plain, "onnxruntime", "llvm", "ziglang"}


def test_a_precision_reaches_tune_compile_and_the_numeric_gate() -> None:
    reduced = replace(V3, precision="fp16")
    tune, compile_, benchmark = (_plan(reduced).find(f"{stage}:net@v3") for stage in ("tune", "compile", "benchmark"))
    assert tune is not None
    assert compile_ is not None
    assert benchmark is not None
    assert (fingerprint(tune)["option.precision"], fingerprint(compile_)["option.precision"]) == ('"fp16"', '"fp16"')
    assert fingerprint(benchmark)["option.tolerance.of_largest"] == "0.02"
    pairs = [pair for step in _plan(V3).steps for pair in fingerprint(step)]
    assert not [pair for pair in pairs if "precision" in pair or "of_largest" in pair or "accuracy" in pair]


def test_real_inputs_are_files_that_the_benchmark_reads() -> None:
    model = replace(MODEL, accuracy=Accuracy("images", ("a.png", "../b.png")))
    benchmark = _plan(replace(V3, benchmark=BenchmarkOptions(baselines=())), models=(model,)).find("benchmark:net@v3")
    assert benchmark is not None
    assert tuple(benchmark.inputs.items())[-2:] == (("sample 0", ROOT / "a.png"), ("sample 1", ROOT / "../b.png"))
    assert benchmark.tools["onnxruntime"] == "5"
