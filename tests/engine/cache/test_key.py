"""The facts that two clones must have in common to share a step's outputs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base import host_cpu
from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, NoDevice, QemuDevice, RpcDevice, SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import BenchmarkOptions, CacheSpec, SimplifyOptions, Tolerance
from tvmbuild.base.steps import BenchmarkStep, Settings, SimplifyStep, Step
from tvmbuild.devices.table import device_kind
from tvmbuild.engine.cache.use import make_key
from tvmbuild.targets import cuda

INPUTS = {"source": (3, 0, "a" * 64)}
SIMPLIFY = Step("simplify", "net", SimplifyStep("net", Source("path", "net.onnx"), (), SimplifyOptions()))
BENCHMARK = BenchmarkStep("pc", "llvm", LocalDevice(), 2, Tolerance(), BenchmarkOptions())


def identify_device(options: BenchmarkStep) -> dict[str, str] | None:
    return device_kind(options.device).identify(options.device, options.kind)


def test_place_times_and_settings_are_not_in_the_key() -> None:
    key = make_key(SIMPLIFY, INPUTS)
    assert key is not None
    assert len(key) == 64
    elsewhere = replace(
        SIMPLIFY,
        root=Path("/elsewhere"),
        inputs=FrozenMap({"source": Path("/elsewhere/net.onnx")}),
        outputs=FrozenMap({"model": Path("/elsewhere/model.onnx")}),
        settings=Settings("full", strict=True, cache=CacheSpec(Path("/cache"))),
    )
    assert make_key(elsewhere, {"source": (4, 9, "a" * 64)}) == key


def test_bytes_options_tools_and_versions_are_in_the_key() -> None:
    keys = {
        make_key(SIMPLIFY, INPUTS),
        make_key(SIMPLIFY, {"source": (3, 0, "b" * 64)}),
        make_key(SIMPLIFY, {"model": INPUTS["source"]}),
        make_key(SIMPLIFY, INPUTS | {"external data w": INPUTS["source"]}),
        make_key(replace(SIMPLIFY, stage="tune"), INPUTS),
        make_key(replace(SIMPLIFY, version=2), INPUTS),
        make_key(replace(SIMPLIFY, tools=FrozenMap({"onnx": "1"})), INPUTS),
        make_key(replace(SIMPLIFY, environment=FrozenMap({"TVM_NUM_THREADS": "1"})), INPUTS),
    }
    assert len(keys) == 8


OTHERS = (NoDevice(), RpcDevice("h:1", "pi4"), QemuDevice("aarch64"), SshDevice("pi@pi"))


@pytest.mark.parametrize("device", OTHERS, ids=lambda device: device.kind)
def test_other_devices_than_this_machine_are_not_cached(device: DeviceSpec) -> None:
    assert make_key(Step("benchmark", "net@pc", replace(BENCHMARK, device=device)), INPUTS) is None


def test_a_gpu_that_nothing_describes_is_not_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda, "NVIDIA", tmp_path / "absent")
    assert identify_device(replace(BENCHMARK, kind="vulkan")) is None
    assert identify_device(replace(BENCHMARK, kind="cuda")) is None


def test_a_gpu_is_its_model_and_its_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    information = tmp_path / "gpus/0000:01:00.0/information"
    information.parent.mkdir(parents=True)
    monkeypatch.setattr(cuda, "NVIDIA", tmp_path)
    card = replace(BENCHMARK, kind="cuda")
    seen = []
    for driver, model in (("1.0", "H100"), ("1.1", "H100"), ("1.1", "H200")):
        (tmp_path / "version").write_text(f"NVRM version: {driver}\nGCC version: 12\n")
        information.write_text(f"Model: \t\t {model}\nIRQ: 1\nGPU UUID: of this very card\n")
        seen.append(identify_device(card))
    assert None not in seen
    assert len({str(each) for each in seen}) == 3


def test_a_cpu_is_its_model_and_its_instructions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(host_cpu, "CPUINFO", cpuinfo)
    seen = []
    for name, flags, mhz in (("A", "avx", "1"), ("A", "avx", "2"), ("A", "avx avx2", "1"), ("B", "avx", "1")):
        cpuinfo.write_text(f"model name\t: {name}\nflags\t\t: {flags}\ncpu MHz\t\t: {mhz}\n")
        seen.append(str(identify_device(BENCHMARK)))
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3


def test_fewer_cores_are_another_device() -> None:
    code = (
        "import os; from tvmbuild.devices.local.kind import identify_cpu\n"
        "all_cores = identify_cpu()\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "print(all_cores['cores'], identify_cpu()['cores'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = done.stdout.split()
    assert int(before) >= int(after) == 1
