from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tvmbuild.base.files import pretty_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import FileEntry, PackageCoverage, PackageInfo, PackageTarget, TensorInfo
from tvmbuild.package.operator_info import OperatorInfo

INFO = PackageInfo(
    model="net",
    target=PackageTarget("pi4", "llvm", FrozenMap({"mattr": ("+neon", "+crc"), "num-cores": 4}), FrozenMap(), "2.28"),
    inputs=(TensorInfo("x", (1, 3, 8, 8), "float32"),),
    outputs=(TensorInfo("y", (), "int64"), TensorInfo("z", (2,), "float32")),
    params="lifted",
    coverage=PackageCoverage(3, 2, ("conv2d",)),
    layout="NHWC",
    preprocess=Preprocess(mean=(0.485, 0.456, 0.406), color="bgr"),
    labels=("cat", "größer"),
    digests=FrozenMap({"model": "ab" * 32, "schedule": "cd" * 32}),
    tools=FrozenMap({"tvm": "0.27.0.post1"}),
    notes=("layout NCHW: because",),
    operators=(
        OperatorInfo("conv2d", "conv2d", "0123456789abcdef", 10, 20, covered=True),
        OperatorInfo("sort", "sort", "fedcba9876543210", None, None, covered=False),
    ),
    files=(FileEntry("mod.params", "12" * 32, 5), FileEntry("mod.so", "34" * 32, 7)),
)


def value_of(info: PackageInfo) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(pretty_json(info.to_json()))
    return value


def test_json_and_back_is_the_same_value() -> None:
    assert PackageInfo.from_json(value_of(INFO)) == INFO


def test_absent_parts_stay_absent() -> None:
    target = PackageTarget("h200", "cuda", FrozenMap({"arch": "sm_90"}), FrozenMap({"mcpu": "x86-64-v3"}))
    info = PackageInfo("net", target, (), (), "embedded", PackageCoverage(0, 0), "NCHW")
    value = value_of(info)
    assert (value["labels"], value["preprocess"], value["entry"]) == (None, None, "main")
    assert PackageInfo.from_json(value) == info


def test_instruction_sets_are_stated_if_they_are_known() -> None:
    assert "flags" not in value_of(INFO)["target"]
    for flags in ((), ("asimd", "asimddp")):
        stated = replace(INFO, target=replace(INFO.target, flags=flags))
        assert PackageInfo.from_json(value_of(stated)) == stated
    value = value_of(INFO)
    value["target"]["flags"] = "asimd"
    with pytest.raises(TvmbuildError, match=r"target\.flags is not a list"):
        PackageInfo.from_json(value)


def test_a_precision_is_named_only_where_it_is_reduced() -> None:
    assert "precision" not in value_of(INFO)["target"]
    reduced = replace(INFO, target=replace(INFO.target, precision="fp16"))
    value = value_of(reduced)
    assert value["target"]["precision"] == "fp16"
    assert PackageInfo.from_json(value) == reduced
    value["target"]["precision"] = "fp8"
    with pytest.raises(TvmbuildError, match=r"target.precision is 'fp8'"):
        PackageInfo.from_json(value)


def test_a_package_from_before_operators_were_written_is_read() -> None:
    value = value_of(INFO)
    del value["operators"]
    assert PackageInfo.from_json(value) == replace(INFO, operators=None)


def test_the_json_is_readable_by_others() -> None:
    value = value_of(INFO)
    assert value["format"] == 1
    assert value["target"]["attributes"] == {"mattr": ["+neon", "+crc"], "num-cores": 4}
    assert value["inputs"] == [{"name": "x", "shape": [1, 3, 8, 8], "dtype": "float32"}]
    assert value["files"]["mod.so"] == {"sha256": "34" * 32, "size": 7}
    assert value["digests"] == {"model": "ab" * 32, "schedule": "cd" * 32}


def tensor(**change: Any) -> dict[str, Any]:
    return {"name": "x", "shape": [1], "dtype": "float32"} | change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "mod.json has the format 2; this tvmbuild reads 1"),
        ({"params": "elsewhere"}, "mod.json is damaged: params is 'elsewhere'"),
        ({"target": None}, "mod.json is damaged: target is not a map"),
        ({"target": {"name": 3}}, "mod.json is damaged: target.name is not a text"),
        ({"coverage": {"tasks": 3}}, "mod.json is damaged: coverage.covered is missing"),
        ({"coverage": {"tasks": True}}, "mod.json is damaged: coverage.tasks is not a natural number"),
        ({"preprocess": {"gamma": 2}}, "mod.json is damaged: preprocess has the unknown key gamma"),
        ({"preprocess": {"resize": "zoom"}}, "mod.json is damaged: preprocess.resize is 'zoom'"),
        ({"preprocess": {"mean": [1]}}, "mod.json is damaged: preprocess.mean has 1 numbers"),
        ({"preprocess": {"std": [1, 0, 1]}}, "mod.json is damaged: preprocess.std has a zero"),
        ({"preprocess": {"scale": float("nan")}}, "mod.json is damaged: preprocess.scale is not a finite number"),
        ({"labels": ["a", 2]}, "mod.json is damaged: labels[1] is not a text"),
        ({"inputs": {}}, "mod.json is damaged: inputs is not a list"),
        ({"inputs": [tensor(shape=[-1])]}, "mod.json is damaged: inputs[0].shape[0] is not a natural number"),
        ({"inputs": [tensor(shape=[1 << 40])]}, "mod.json is damaged: inputs[0].shape is larger than any memory"),
        ({"outputs": [tensor(dtype="object")]}, "mod.json is damaged: outputs[0].dtype is 'object'"),
        ({"outputs": [tensor(), tensor()]}, "mod.json is damaged: outputs have a name twice"),
        ({"files": {"mod.so": {"sha256": "x", "size": 1}}}, "mod.json is damaged: files.mod.so.sha256 is no SHA-256"),
        ({"operators": [{}]}, "mod.json is damaged: operators[0].function is missing"),
    ],
)
def test_damage_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TvmbuildError) as caught:
        PackageInfo.from_json(value_of(INFO) | change)
    assert caught.value.message.startswith(message)


def test_a_value_that_is_no_object() -> None:
    with pytest.raises(TvmbuildError, match="format 'list'"):
        PackageInfo.from_json([])
