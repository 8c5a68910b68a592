from __future__ import annotations

import hashlib
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tvmbuild.base.device_specs import LocalDevice, RpcDevice
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.specs import BenchmarkOptions, SimplifyOptions, Tolerance, TuneOptions
from tvmbuild.config import load_project
from tvmbuild.config.schema import load_schema
from tvmbuild.config.targets import attribute_names

LEFT_OUT = {
    # keys that targets.yaml states in its own words
    "kind", "host", "from_device", "device", "tag",
    # chosen by the kind, or without a meaning in a package that is compiled ahead of time
    "target_device_type", "jit",
}  # fmt: skip
NO_CUDA_CPU = {"mcpu"}


def test_shipped_matrix_loads(project_root: Path) -> None:
    project = load_project(project_root)
    on = [model.name for model in project.models if model.enabled]
    assert on == ["mobilenet_v2", "silero_vad", "magika"]
    assert {model.source.kind for model in project.models if not model.enabled} == {"url", "package"}
    kinds = {target.name: (target.kind, target.device.kind) for target in project.targets}
    assert kinds == {
        "x86-64-v3": ("llvm", "local"),
        "x86-64-v4": ("llvm", "local"),
        "x86-64-vnni": ("llvm", "local"),
        "pi4": ("llvm", "qemu"),
        "x86-64-v2": ("llvm", "local"),
        "aarch64": ("llvm", "qemu"),
        "pi5": ("llvm", "qemu"),
        "jetson-cpu": ("llvm", "qemu"),
        "armv7": ("llvm", "none"),
        "riscv64": ("llvm", "none"),
        "h200": ("cuda", "none"),
        "h200-fp16": ("cuda", "none"),
        "orin-jetpack6": ("cuda", "none"),
        "xavier-jetpack5": ("cuda", "none"),
        "nuc-vulkan": ("vulkan", "none"),
    }
    off = [target.name for target in project.targets if not target.enabled]
    assert off == [
        "x86-64-v2",
        "aarch64",
        "x86-64-vnni",
        "pi5",
        "jetson-cpu",
        "armv7",
        "riscv64",
        "h200-fp16",
        "orin-jetpack6",
        "xavier-jetpack5",
    ]
    assert all(target.unresolved is None and target.tune.trials_per_task == 64 for target in project.targets)


def test_shipped_models_are_those_of_their_readme(project_root: Path) -> None:
    readme = (project_root / "models" / "README.md").read_text(encoding="utf-8")
    listed = dict(reversed(line.split()) for line in re.findall(r"^[0-9a-f]{64}  \S+$", readme, re.MULTILINE))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (project_root / "models").glob("*.onnx")
    }
    assert found == listed


@pytest.mark.parametrize("name", ["models", "targets"])
def test_first_line_names_the_schema(name: str, project_root: Path) -> None:
    first = (project_root / f"{name}.yaml").read_text(encoding="utf-8").split("\n")[0]
    assert first.startswith("# yaml-language-server: $schema=")
    path = project_root / first.partition("$schema=")[2]
    assert path.name == f"{name}.schema.json"
    assert path.is_file()


@pytest.mark.parametrize("name", ["models", "targets"])
def test_schema_is_valid_and_describes_every_key(name: str) -> None:
    schema = load_schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in _parts(schema):
        if "pattern" in part:
            assert part["patternErrorMessage"]
        for key, value in part.get("properties", {}).items() if part.get("type") == "object" else ():
            assert value.get("description") or "const" in value or key in ("kind", "models", "targets"), key


def _parts(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [part for item in schema for part in _parts(item)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(part for item in schema.values() for part in _parts(item))]


@pytest.mark.parametrize(
    ("schema", "part", "spec"),
    [
        ("models", "simplify", SimplifyOptions),
        ("models", "tolerance", Tolerance),
        ("targets", "tune", TuneOptions),
        ("targets", "benchmark", BenchmarkOptions),
    ],
)
def test_schema_defaults_are_the_specs(schema: str, part: str, spec: type) -> None:
    properties = load_schema(schema)["$defs"][part]["properties"]
    stated = {key: value["default"] for key, value in properties.items() if "default" in value}
    assert stated == {
        field.name: list(field.default) if isinstance(field.default, tuple) else field.default for field in fields(spec)
    }


def test_other_schema_defaults_are_the_specs() -> None:
    properties = load_schema("models")["$defs"]["preprocess"]["properties"]
    default = Preprocess()
    assert (properties["resize"]["default"], properties["color"]["default"], properties["layout"]["default"]) == (
        default.resize,
        default.color,
        default.layout,
    )
    assert properties["scale"]["default"] == "1/255"
    device = load_schema("targets")["$defs"]["device"]
    assert device["default"] == LocalDevice().kind
    limits = device["anyOf"][1]["properties"]["rpc"]["properties"]
    for name in ("timeout_s", "wait_s", "session_s"):
        assert limits[name]["default"] == getattr(RpcDevice("host:9190", "board"), name)


@pytest.mark.compiler
def test_every_shipped_target_is_one_of_tvm(project_root: Path) -> None:
    from tvmbuild.compiler.machine.target import tvm_target

    for target in load_project(project_root).targets:
        made = tvm_target(target.kind, target.attributes, target.host)
        assert made.kind.name == target.kind, target.name


OURS = {"driver", "ptx"}
"""Attributes of CUDA targets that the compiler of kernels reads, and not TVM."""


@pytest.mark.compiler
@pytest.mark.parametrize("kind", ["llvm", "cuda", "vulkan"])
def test_attributes_are_those_of_tvm(kind: str) -> None:
    import tvm

    options = {
        str(name): str(type_)
        for name, type_ in tvm.get_global_func("target.ListTargetKindOptionsFromName")(kind).items()
    }
    names = attribute_names(kind) - OURS
    assert names == set(options) - LEFT_OUT - (NO_CUDA_CPU if kind == "cuda" else set())
    types = {"int": "integer", "str": "string", "bool": "boolean", "Array<str>": "array"}
    properties = load_schema("targets")["$defs"][kind]["properties"]
    wrong = {key for key in names if properties[key].get("type", "string") != types[options[key]]}
    assert not wrong


def test_host_has_the_attributes_of_llvm() -> None:
    assert frozenset(load_schema("targets")["$defs"]["host"]["properties"]) == attribute_names("llvm")
