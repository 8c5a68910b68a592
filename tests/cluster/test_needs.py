"""Steps ask workers for amounts, and workers offer some; a kind missing from the tables has the defaults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, NoDevice, QemuDevice, RpcDevice, SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.source_specs import HUB, Export, Source
from tvmbuild.base.specs import ModelSpec, Project, TargetSpec
from tvmbuild.base.steps import Settings, Step, ValidateStep
from tvmbuild.cluster.kinds import DEVICE_ROWS, TARGET_ROWS, Amounts, device_resources, target_resources
from tvmbuild.cluster.needs import STAGE_ROWS, explain_lack, list_needs, list_resources
from tvmbuild.devices.table import DEVICES
from tvmbuild.planning.plan import make_plan
from tvmbuild.stages.table import STAGES
from tvmbuild.targets.table import TARGETS

LAPTOP = Capabilities(
    codegens=("llvm", "cuda"),
    devices=("llvm",),
    machine="x86_64",
    cores=2,
    host_cpu="alderlake",
    runnable_cpus=("x86-64-v3",),
    versions=FrozenMap({"apache-tvm": "0.27", "ziglang": "16"}),
)
SERVER = replace(LAPTOP, cores=16, host_cpu="znver4", nvrtc="12.9", emulators=("aarch64",))
GPU = replace(SERVER, runtimes=("llvm", "cuda"), devices=("llvm", "cuda"))
V3 = TargetSpec("v3", "llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 8}))
PI4 = TargetSpec("pi4", "llvm", FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}))
H100 = TargetSpec("h100", "cuda", FrozenMap({"arch": "sm_90"}), host=FrozenMap({"mcpu": "x86-64-v3"}))
MODEL = ModelSpec("net", Source("path", "net.onnx"))


def needs(step: str, target: TargetSpec, mode: str = "missing", model: ModelSpec = MODEL) -> Amounts:
    project = Project(Path("/project"), (model,), (target,))
    plan = make_plan(project, LAPTOP, Settings(tune="never" if mode == "never" else "missing"), (SERVER, GPU))
    found = plan.find(f"{step}:net@{target.name}" if step != "simplify" else "simplify:net")
    assert found is not None
    assert found.unavailable is None
    return list_needs(found, LAPTOP.host_cpu)


@pytest.mark.parametrize(
    ("step", "target", "wanted"),
    [
        ("simplify", V3, {}),
        ("compile", V3, {"build:llvm": 1}),
        ("compile", H100, {"build:cuda": 1, "nvcc": 1}),
        ("tune", H100, {"build:cuda": 1, "nvcc": 1, "device:local": 1, "cuda": 1}),
        ("tune", V3, {"build:llvm": 1, "device:local": 1, "cpu:alderlake": 8}),
        ("tune", replace(V3, measured_on="znver4"), {"build:llvm": 1, "device:local": 1, "cpu:znver4": 8}),
        ("tune", replace(PI4, device=RpcDevice("h:1", "pi4")), {"build:llvm": 1, "device:pi4": 1}),
        ("tune", replace(PI4, device=QemuDevice("aarch64")), {"build:llvm": 1}),
        ("tune", replace(V3, device=NoDevice()), {"build:llvm": 1}),
        ("benchmark", replace(PI4, device=SshDevice("pi@board")), {"device:pi@board": 1}),
        ("benchmark", V3, {"device:local": 1, "cpu:alderlake": 8}),
        ("benchmark", H100, {"device:local": 1, "cuda": 1}),
        ("benchmark", replace(PI4, device=QemuDevice("aarch64")), {"device:qemu-aarch64": 1}),
    ],
)
def test_needs(step: str, target: TargetSpec, wanted: dict[str, int]) -> None:
    assert needs(step, target) == {"tvmbuild": 1, **wanted}


def test_who_does_not_search_needs_no_device() -> None:
    assert needs("tune", V3, "never") == {"tvmbuild": 1, "build:llvm": 1}


def test_an_export_runs_where_its_user_is() -> None:
    export = Source("export", "export.py", export=Export("make"))
    assert needs("simplify", V3, model=replace(MODEL, source=export)) == {}


def test_what_is_an_extra_is_needed_by_its_name() -> None:
    versions = FrozenMap({**SERVER.versions, "nncf": "3", "huggingface-hub": "1"})
    machine, integers = replace(SERVER, versions=versions), replace(V3, precision="int8")
    model = replace(MODEL, source=Source("hub", "owner/net", "net.onnx", "0" * 64))
    samples = Calibration("inputs", ("real.npz",))
    for quantize, more in ((Quantize(samples, "nncf"), {"nncf": 1}), (Quantize(samples, "onnxruntime"), {})):
        project = Project(Path("/project"), (replace(model, quantize=quantize),), (integers,))
        fetch, quantise, *_ = make_plan(project, LAPTOP, Settings(), (machine,)).steps
        assert (fetch.unavailable, quantise.unavailable) == (None, None)
        assert list_needs(fetch, "alderlake") == {"tvmbuild": 1, HUB.name: 1}
        assert list_needs(quantise, "alderlake") == {"tvmbuild": 1, **more}
    assert list_resources(machine, 3).items() >= {"nncf": 3, HUB.name: 3}.items()


def test_a_stand_in_is_needed_where_it_runs_the_package() -> None:
    options = ValidateStep("vk", "vulkan", FrozenMap(), V3.attributes, MODEL.tolerance_in("fp32"))
    assert list_needs(Step("validate", "net@vk", options), "znver4") == {"tvmbuild": 1, "build:vulkan": 1}
    alone = list_needs(Step("validate", "net@vk", replace(options, stand_in="llvmpipe")), "znver4")
    assert alone == {"tvmbuild": 1, "build:vulkan": 1, "vulkan": 1}


def test_a_linker_is_said_by_its_name() -> None:
    machines = [replace(SERVER, linkers=FrozenMap({"gcc": "gcc 13"}))]
    project = Project(Path("/project"), (MODEL,), (replace(V3, link="gcc"),))
    step = make_plan(project, LAPTOP, Settings(), machines).find("compile:net@v3")
    assert step is not None
    assert list_needs(step, "alderlake") == {"tvmbuild": 1, "build:llvm": 1, "linker:gcc": 1}
    assert step.tools["gcc"] == "gcc 13"


def test_a_step_is_available_where_one_worker_can_run_it_and_has_its_tools() -> None:
    project = Project(Path("/project"), (MODEL,), (H100, V3))
    here = make_plan(project, LAPTOP, Settings())
    there = make_plan(project, LAPTOP, Settings(), (LAPTOP, GPU))
    assert [step.id for step in here.steps if step.unavailable] == [
        "compile:net@h100", "benchmark:net@h100", "benchmark:net@v3"
    ]  # fmt: skip
    assert [step.id for step in there.steps if step.unavailable] == []
    step = there.find("compile:net@h100")
    assert step is not None
    assert step.tools["nvrtc"] == "12.9"


def test_resources() -> None:
    assert list_resources(GPU, 2, ["device:pi4", "linker:gcc", "cpu:ours"]) == {
        "tvmbuild": 2,
        "device:local": 1,
        "cpu:znver4": 16,
        "build:llvm": 2,
        "build:cuda": 2,
        "nvcc": 2,
        "device:qemu-aarch64": 1,
        "cuda": 1,
        "device:pi4": 1,
        "linker:gcc": 2,
        "cpu:ours": 16,
    }
    assert list_resources(replace(LAPTOP, versions=FrozenMap({"nncf": "3"})), 3)["nncf"] == 3
    assert list_resources(LAPTOP, 1).keys() == {"tvmbuild", "device:local", "cpu:alderlake", "build:llvm", "build:cuda"}


@pytest.mark.parametrize(
    ("workers", "lack"),
    [
        ([], "tvmbuild, cpu:x=8"),
        ([{"tvmbuild": 1}], "cpu:x=8"),
        ([{"tvmbuild": 1, "cpu:x": 4}], "cpu:x=8"),
        ([{"tvmbuild": 1}, {"cpu:x": 8}], "tvmbuild, cpu:x=8"),
        ([{"tvmbuild": 1}, {"tvmbuild": 1, "cpu:x": 8}], None),
    ],
)
def test_lack(workers: list[dict[str, float]], lack: str | None) -> None:
    assert explain_lack({"tvmbuild": 1, "cpu:x": 8}, workers) == lack


@pytest.mark.parametrize("name", TARGETS)
def test_a_machine_that_has_all_of_a_kind_of_target_offers_what_its_steps_take(name: str) -> None:
    machine = replace(GPU, codegens=tuple(TARGETS), devices=tuple(TARGETS), nvcc="13.0")
    kind, offers = target_resources(name), list_resources(machine, 2)
    assert kind.list_build_needs(compiles=False) == {f"build:{name}": 1}
    taken = {**kind.list_build_needs(compiles=True), **kind.list_device_needs("znver4", 2)}
    assert explain_lack(taken, [offers]) is None
    assert explain_lack(taken, [list_resources(Capabilities(), 2)]) is not None


@pytest.mark.parametrize(
    ("spec", "taken"),
    [
        (LocalDevice(), {"device:local": 1, "cpu:znver4": 4}),
        (NoDevice(), {"device:none": 1}),
        (RpcDevice("hut:9190", "pi4"), {"device:pi4": 1}),
        (QemuDevice("aarch64"), {"device:qemu-aarch64": 1}),
        (SshDevice("pi@board"), {"device:pi@board": 1}),
    ],
    ids=lambda value: value.kind if isinstance(value, DeviceSpec) else "",
)
def test_what_a_kind_of_device_takes(spec: DeviceSpec, taken: dict[str, int]) -> None:
    own = target_resources("llvm").list_device_needs("znver4", 4)
    assert device_resources(spec.kind).list_needs(spec, own) == taken
    assert (explain_lack(taken, [list_resources(SERVER, 1)]) is None) is (spec.kind in {"local", "qemu"})
    assert explain_lack(taken, [list_resources(SERVER, 1, taken)]) is None  # --has


def test_rows_are_of_what_there_is() -> None:
    assert TARGET_ROWS.keys() <= TARGETS.keys()
    assert DEVICE_ROWS.keys() <= DEVICES.keys()
    assert list(STAGE_ROWS) == [stage.name for stage in STAGES]


def test_what_has_no_row_has_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    metal = target_resources("metal")
    assert metal.list_build_needs(compiles=True) == {"build:metal": 1}
    assert metal.list_device_needs("apple-m1", 4) == {"metal": 1}
    monkeypatch.setitem(TARGETS, "metal", TARGETS["vulkan"])
    offers = list_resources(replace(LAPTOP, codegens=("metal",), devices=("metal",)), 3)
    assert (offers["build:metal"], offers["metal"]) == (3, 1)
    step = make_plan(Project(Path("/project"), (MODEL,), (V3,)), LAPTOP, Settings()).find("compile:net@v3")
    assert step is not None
    assert list_needs(replace(step, stage="shrink"), "alderlake") == {"tvmbuild": 1}
