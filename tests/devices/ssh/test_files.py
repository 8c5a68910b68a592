"""The files sent to a board without Python, and the code that it does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import DeviceSpec, QemuDevice, SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen.elf import read_elf
from tvmbuild.devices.kind import Code
from tvmbuild.devices.ssh import program
from tvmbuild.devices.table import device_kind
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget
from tvmbuild.planning.detection import detect_capabilities

ARM: Attributes = FrozenMap({"mtriple": "aarch64-linux-gnu", "num-cores": 4})
ON_CPUS = "an emulated board runs the code of CPUs, not of "


@pytest.mark.compiler
@pytest.mark.parametrize("kind", ["cuda", "vulkan"])
def test_the_runtime_of_the_boards_machine_travels(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(program, "_find_libraries", lambda _machine: (tmp_path / "libtvm_runtime.so",))
    monkeypatch.setattr(program, "_find_program", lambda _machine, _libraries: tmp_path / "serve_model")
    assert len(program.find_files("aarch64")) == 2
    *_, library = program.find_files("aarch64", kind)
    assert library.name == f"libtvmbuild_{kind}.so"
    assert read_elf(library).machine == "aarch64"


def test_a_gpus_package_is_for_the_machine_of_its_host() -> None:
    target = PackageTarget("gpu", "vulkan", FrozenMap({"max_threads_per_block": 256}), ARM)
    info = PackageInfo("net", target, (), (), "lifted", PackageCoverage(0, 0), "NCHW")
    assert program.machine_of_package(info) == "aarch64"


@pytest.mark.parametrize(
    ("spec", "kind", "reason"),
    [
        (SshDevice("board"), "vulkan", None),
        (SshDevice("board"), "cuda", None),
        (QemuDevice("aarch64"), "vulkan", f"{ON_CPUS}vulkan; say `device: none` to build only"),
        (QemuDevice("aarch64"), "cuda", f"{ON_CPUS}cuda; say `device: none` to build only"),
    ],
)
def test_what_a_board_does_not_run_is_in_the_plan(spec: DeviceSpec, kind: str, reason: str | None) -> None:
    assert device_kind(spec).explain(spec, Code(kind, ARM), detect_capabilities()) == reason
