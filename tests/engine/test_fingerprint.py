from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, NoDevice, QemuDevice, RpcDevice, SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import Export, ExportFile, Json, Source
from tvmbuild.base.specs import InputSpec, SimplifyOptions, TuneOptions
from tvmbuild.base.steps import CompileStep, Settings, SimplifyStep, Step, TuneStep
from tvmbuild.engine.fingerprint import fingerprint

STEP = Step(
    stage="simplify",
    subject="net",
    options=SimplifyStep("net", Source("path", "net.onnx"), (InputSpec("x", (1, 3)),), SimplifyOptions()),
    tools=FrozenMap({"onnx": "1.0"}),
    environment=FrozenMap({"TVM_NUM_THREADS": "2"}),
)


def test_pairs_are_flat_and_readable() -> None:
    pairs = fingerprint(STEP)
    assert pairs["option.inputs[0].shape"] == "[1,3]"
    assert pairs["option.source.location"] == '"net.onnx"'
    assert pairs["tool onnx"] == "1.0"
    assert pairs["environment TVM_NUM_THREADS"] == "2"
    assert pairs["stage version"] == "1"


def test_arguments_of_an_export_are_shown_as_the_yaml_has_them() -> None:
    files = (ExportFile("weights", Source("path", "w.bin")),)
    export = Export("make", FrozenMap({"depth": Json('{"a":[1,2]}'), "name": Json('"net"')}), files)
    options = SimplifyStep("net", Source("export", "net.py", export=export), (), SimplifyOptions())
    pairs = fingerprint(replace(STEP, options=options))
    assert pairs["option.source.export.function"] == '"make"'
    assert pairs["option.source.export.arguments.depth"] == '{"a":[1,2]}'
    assert pairs["option.source.export.arguments.name"] == '"net"'
    assert pairs["option.source.export.files[0].name"] == '"weights"'
    assert pairs["option.source.export.files[0].source.location"] == '"w.bin"'


def test_other_sources_have_the_fingerprint_that_they_had_before_exports() -> None:
    assert {name for name in fingerprint(STEP) if name.startswith("option.source.")} == {
        f"option.source.{name}" for name in ("kind", "location", "file", "sha256")
    }


def test_mode_root_and_availability_are_not_in_it() -> None:
    other = replace(STEP, settings=Settings("full", strict=True), root=Path("/elsewhere"), unavailable="no")
    assert fingerprint(other) == fingerprint(STEP)


def test_a_field_that_came_later_counts_only_where_it_is_said() -> None:
    plain = CompileStep("net", "pc", "llvm", FrozenMap(), FrozenMap(), "auto", None, None)
    names = {"model", "target", "kind", "attributes", "host", "link", "glibc", "preprocess"}
    before = fingerprint(Step("compile", "net@pc", plain))
    assert {name for name in before if name.startswith("option.")} == {f"option.{name}" for name in names}
    reduced = fingerprint(Step("compile", "net@pc", replace(plain, precision="fp16")))
    assert reduced == before | {"option.precision": '"fp16"'}


NOTHING = {"tracker": "null", "key": "null", "timeout_s": "60.0", "arch": "null"}
RPC = {"kind": '"rpc"', "tracker": '"h:1"', "key": '"pi4"', "timeout_s": "60.0", "arch": "null"}
DEVICES: list[tuple[DeviceSpec, dict[str, str]]] = [
    (NoDevice(), {"kind": '"none"', **NOTHING}),
    (LocalDevice(), {"kind": '"local"', **NOTHING}),
    (QemuDevice("aarch64"), {"kind": '"qemu"', **NOTHING, "arch": '"aarch64"'}),
    (SshDevice("pi@pi"), {"kind": '"ssh"', **NOTHING, "host": '"pi@pi"'}),
    (RpcDevice("h:1", "pi4"), RPC),
    (RpcDevice("h:1", "pi4", 5.0), RPC | {"timeout_s": "5.0"}),
    (RpcDevice("h:1", "pi4", wait_s=1.0), RPC | {"wait_s": "1.0"}),
    (RpcDevice("h:1", "pi4", session_s=2.5), RPC | {"session_s": "2.5"}),
]


@pytest.mark.parametrize(("device", "said"), DEVICES)
def test_devices_have_the_fingerprint_of_when_they_were_one_class(device: DeviceSpec, said: dict[str, str]) -> None:
    attributes: Attributes = FrozenMap({"mattr": ("+a",), "num-cores": 2})
    options = TuneStep("pc", "llvm", attributes, FrozenMap(), None, device, TuneOptions(), threads=2)
    pairs = fingerprint(Step("tune", "net@pc", options))
    assert pairs == {
        "option.target": '"pc"',
        "option.kind": '"llvm"',
        "option.attributes.mattr": '["+a"]',
        "option.attributes.num-cores": "2",
        "option.host": "[]",
        "option.measured_on": "null",
        **{f"option.device.{name}": value for name, value in said.items()},
        "option.tune.trials": "null",
        "option.tune.trials_per_task": "64",
        "option.tune.number": "1",
        "option.tune.repeat": "3",
        "option.tune.min_repeat_ms": "10",
        "option.tune.seed": "0",
        "option.tune.patience": "48",
        "option.tune.cost_model": '"xgb"',
        "option.tune.ops": '["*"]',
        "stage version": "1",
    }


def test_an_empty_map_is_shown_as_it_was_when_it_was_a_tuple() -> None:
    cell = CompileStep("net", "pc", "llvm", FrozenMap(), FrozenMap(), "auto", None, None)
    pairs = fingerprint(Step("compile", "net@pc", cell))
    assert (pairs["option.attributes"], pairs["option.host"]) == ("[]", "[]")
    options = SimplifyStep("net", Source("export", "net.py", export=Export("make")), (), SimplifyOptions())
    assert fingerprint(Step("simplify", "net", options))["option.source.export.arguments"] == "[]"


def test_a_step_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(STEP)) == STEP  # noqa: S301 - our own bytes
