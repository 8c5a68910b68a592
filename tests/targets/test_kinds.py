"""Every kind of target answers every question, and a new kind needs only its row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.finding import Finding
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.nvrtc import list_archs, list_versions
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import ModelSpec, Project, TargetSpec
from tvmbuild.base.steps import Settings
from tvmbuild.cluster.needs import list_needs, list_resources
from tvmbuild.config.schema import load_schema
from tvmbuild.config.targets import attribute_names
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.planning.plan import Plan, make_plan
from tvmbuild.targets.gpu import Gpu
from tvmbuild.targets.kind import Problem, TargetKind
from tvmbuild.targets.table import TARGETS, target_kind

CPU: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
ATTRIBUTES: dict[str, Attributes] = {"llvm": CPU, "cuda": FrozenMap({"arch": "sm_90"}), "vulkan": FrozenMap()}
TOOLS: dict[str, set[str]] = {"llvm": set(), "cuda": {"nvcc", "nvrtc"}, "vulkan": {"vulkan backend"}}
NOTHING = Capabilities()
ALL = Capabilities(
    codegens=tuple(TARGETS),
    runtimes=tuple(TARGETS),
    devices=tuple(TARGETS),
    vulkan_devices=("Iris",),
    nvcc="12.6",
    nvrtc="11.8, 12.9",
    llvm="20",
    machine="x86_64",
    cores=8,
    host_cpu="znver4",
    runnable_cpus=("x86-64-v3",),
)


def test_jetpack_4_is_refused_with_a_reason() -> None:
    (mistake,) = target_kind("cuda").find_mistakes({"arch": "sm_72", "driver": "11.4", "glibc": "2.27"})
    assert mistake[0] == "glibc"
    assert mistake[1].startswith("JetPack 4, with glibc 2.27, runs no package")


def test_an_architecture_that_the_compiler_does_not_know_is_refused_before_the_build() -> None:
    here = Capabilities(nvrtc="11.8, 12.9", nvrtc_archs=FrozenMap({"11.8": "sm_72 sm_90", "12.9": "sm_90 sm_120"}))
    explain = target_kind("cuda").explain_compiler
    assert explain(FrozenMap({"arch": "sm_90a"}), here) is None
    assert explain(FrozenMap({"arch": "sm_72"}), here) is None
    assert (
        explain(FrozenMap({"arch": "sm_999"}), here) == "NVRTC 12.9 compiles nothing for sm_999; it knows sm_90, sm_120"
    )
    assert explain(FrozenMap({"arch": "sm_999"}), replace(here, nvrtc_archs=FrozenMap())) is None


@pytest.mark.compiler
def test_every_nvrtc_here_tells_its_architectures() -> None:
    found = list_archs()
    assert list(found) == (list_versions() or "").split(", ")
    assert all({"sm_80", "sm_87"} <= set(archs.split()) for archs in found.values())


@pytest.mark.parametrize("name", TARGETS)
def test_every_kind_answers(name: str) -> None:
    kind, attributes = target_kind(name), ATTRIBUTES[name]
    assert kind.name == name
    assert set(kind.pinned) <= attribute_names(name)
    assert all(family.keys() <= attribute_names(name) for family in kind.families.values())
    assert kind.find_mistakes({"kind": name}) == []
    problem = kind.explain_precision("bf16", attributes)
    assert (problem is None) is (name == "cuda")
    assert kind.needs_records is kind.always_builds is not kind.on_gpu
    assert set(kind.list_tools(attributes, NOTHING)) == TOOLS[name]
    assert set(kind.list_tools(attributes, NOTHING).values()) <= {"absent"}
    assert (kind.explain_codegen(NOTHING) or "").startswith(
        ("the installed TVM generates no ", "the runtime that Vulkan code is packed with")
    )
    assert kind.explain_codegen(ALL) is None
    assert (kind.explain_compiler(attributes, NOTHING) is None) is (name != "cuda")
    assert kind.explain_compiler(attributes, ALL) is None
    assert kind.explain_here(CPU, NOTHING)
    assert kind.explain_here(CPU, ALL) is None
    assert isinstance(kind.frees_cores, bool)
    assert kind.describe_here(TargetSpec("a", name, attributes, CPU if kind.on_gpu else FrozenMap()))
    assert kind.describe(attributes).startswith(name)
    assert kind.explain_absence(ALL) is None
    assert isinstance(kind.check(ALL), Finding)
    assert kind.check(ALL).state == "ok"
    assert kind.check(NOTHING).state != "ok"
    assert PackageTarget("a", name).on_gpu is kind.on_gpu


@pytest.mark.compiler
@pytest.mark.parametrize("name", TARGETS)
def test_what_is_asked_of_tvm(name: str) -> None:
    import tvm

    kind = target_kind(name)
    has = kind.has_runtime(lambda function: tvm.get_global_func(function, allow_missing=True) is not None)
    if has and kind.answers():
        assert kind.find_device_class()
    found = kind.probe(Capabilities(codegens=(name,)))
    assert replace(found, codegens=()) == replace(kind.probe(Capabilities(codegens=(name,))), codegens=())


def test_the_schema_knows_the_kinds_of_the_table() -> None:
    definitions = load_schema("targets")["$defs"]
    assert definitions["kind"]["enum"] == list(TARGETS)
    with pytest.raises(ValueError, match="there is no kind of target opencl"):
        target_kind("opencl")


def test_the_cpu_of_a_target_and_of_its_package_are_one() -> None:
    for name, kind in TARGETS.items():
        host: Attributes = CPU if kind.on_gpu else FrozenMap()
        target = TargetSpec("a", name, ATTRIBUTES[name], host)
        assert target.cpu == PackageTarget("a", name, ATTRIBUTES[name], host).cpu == CPU


# --------------------------------------------------------------------------- an unknown kind


class Metal(Gpu):
    """GPUs for which TVM has no generator."""

    name = "metal"

    def explain_precision(self, precision: str, _attributes: Attributes) -> Problem | None:
        return None if precision == "fp16" else (f"no {precision} there", "fp16 or fp32")

    def explain_here(self, _cpu: Attributes, capabilities: Capabilities) -> str | None:
        return None if self.name in capabilities.devices else "it has no Metal"

    def check(self, capabilities: Capabilities) -> Finding:
        return Finding("ok" if self.name in capabilities.devices else "missing", "Metal", "")


def plan_metal(machine: Capabilities) -> Plan:
    target = TargetSpec("mac", "metal", FrozenMap(), CPU)
    project = Project(Path("/project"), (ModelSpec("net", Source("path", "net.onnx")),), (target,))
    return make_plan(project, machine, Settings())


def test_a_new_kind_is_planned_and_given_to_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "metal", Metal())
    tools = FrozenMap({"ziglang": "16"})
    mac = replace(ALL, codegens=("llvm", "metal"), devices=("llvm", "metal"), versions=tools)
    steps = {step.stage: step for step in plan_metal(mac).steps}
    assert {step.unavailable for step in steps.values()} == {None}
    assert list_needs(steps["compile"], "apple-m1") == {"tvmbuild": 1, "build:metal": 1}
    assert list_needs(steps["benchmark"], "apple-m1") == {"tvmbuild": 1, "device:local": 1, "metal": 1}
    assert list_resources(mac, 2).items() >= {"build:metal": 2, "metal": 1}.items()
    compile_ = plan_metal(replace(mac, codegens=("llvm",))).find("compile:net@mac")
    assert compile_ is not None
    assert (compile_.unavailable or "").startswith("the installed TVM generates no metal code; ")
    benchmark = plan_metal(replace(mac, devices=("llvm",))).find("benchmark:net@mac")
    assert benchmark is not None
    assert benchmark.unavailable == "it has no Metal"


def test_what_a_kind_must_answer_is_said_when_its_row_is_made() -> None:
    class Nothing(TargetKind):
        name, on_gpu = "nothing", False

    with pytest.raises(TypeError, match=r"'?check'?, '?explain_here'?, '?explain_precision'?, '?find_device_class'?$"):
        Nothing()  # type: ignore[abstract]
