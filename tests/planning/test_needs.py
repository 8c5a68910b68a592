from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import NoDevice, QemuDevice, RpcDevice, SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import Export, Source
from tvmbuild.base.specs import ModelSpec, Project, TargetSpec
from tvmbuild.base.steps import Needs, Settings
from tvmbuild.planning.needs import explain_lack, list_resources
from tvmbuild.planning.plan import make_plan

LAPTOP = Capabilities(
    codegens=("llvm", "cuda"),
    devices=("llvm",),
    machine="x86_64",
    cores=2,
    host_cpu="alderlake",
    runnable_cpus=("x86-64-v3",),
    versions=FrozenMap({"apache-tvm": "0.27", "ziglang": "16"}),
)
SERVER = replace(LAPTOP, cores=16, host_cpu="znver4", nvrtc="13.1", emulators=("aarch64",))
GPU = replace(SERVER, runtimes=("llvm", "cuda"), devices=("llvm", "cuda"))
V3 = TargetSpec("v3", "llvm", FrozenMap({"mcpu": "x86-64-v3", "num-cores": 8}))
PI4 = TargetSpec("pi4", "llvm", FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}))
H100 = TargetSpec("h100", "cuda", FrozenMap({"arch": "sm_90"}), host=FrozenMap({"mcpu": "x86-64-v3"}))
MODEL = ModelSpec("net", Source("path", "net.onnx"))


def needs(step: str, target: TargetSpec, mode: str = "missing", model: ModelSpec = MODEL) -> Needs:
    project = Project(Path("/project"), (model,), (target,))
    plan = make_plan(project, LAPTOP, Settings(tune="never" if mode == "never" else "missing"), (SERVER, GPU))
    found = plan.find(f"{step}:net@{target.name}" if step != "simplify" else "simplify:net")
    assert found is not None
    assert found.unavailable is None
    return found.needs


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
    assert dict(needs(step, target)) == {"tvmbuild": 1, **wanted}


def test_who_does_not_search_needs_no_device() -> None:
    assert dict(needs("tune", V3, "never")) == {"tvmbuild": 1, "build:llvm": 1}


def test_an_export_runs_where_its_user_is() -> None:
    export = Source("export", "export.py", export=Export("make"))
    assert needs("simplify", V3, model=replace(MODEL, source=export)) == {}


def test_a_linker_is_said_by_its_name() -> None:
    machines = [replace(SERVER, linkers=FrozenMap({"gcc": "gcc 13"}))]
    project = Project(Path("/project"), (MODEL,), (replace(V3, link="gcc"),))
    step = make_plan(project, LAPTOP, Settings(), machines).find("compile:net@v3")
    assert step is not None
    assert step.needs["linker:gcc"] == 1
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
    assert step.tools["nvrtc"] == "13.1"


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
    assert explain_lack(FrozenMap({"tvmbuild": 1, "cpu:x": 8}), workers) == lack
