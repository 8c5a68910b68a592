from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import NoDevice
from tvmbuild.base.files import sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import runtime_dir
from tvmbuild.base.nvrtc import INSTALL
from tvmbuild.base.specs import CacheSpec, TargetSpec
from tvmbuild.cli import main
from tvmbuild.cli.doctor.command import check_cache, check_installation, check_targets, list_holders, list_pins
from tvmbuild.engine.cache.entries import write_entry
from tvmbuild.planning.detection import detect_capabilities

HERE = Capabilities(
    codegens=("llvm", "cuda"),
    runtimes=("llvm",),
    devices=("llvm",),
    llvm="22",
    nvcc="12.6",
    machine="x86_64",
    versions=FrozenMap({"apache-tvm": "a", "apache-tvm-ffi": "b", "xgboost-cpu": "3", "ziglang": "0.17"}),
)


def _rows(here: Capabilities) -> dict[str, tuple[str, str, str]]:
    return {each.what: (each.state, each.detail, each.remedy) for each in check_installation(here)}


def test_pins_are_those_of_the_metadata() -> None:
    pins = list_pins()
    assert pins["apache-tvm-ffi"] == "0.1.14.post1"
    assert pins["apache-tvm"].startswith("0.27")


def test_wrong_pin_is_wrong() -> None:
    state, detail, remedy = _rows(HERE)["apache-tvm-ffi"]
    assert state == "wrong"
    assert detail == "b, expected 0.1.14.post1: 0.1.15 segfaults with this TVM"
    assert remedy == "pip install apache-tvm-ffi==0.1.14.post1"


def test_right_pins_are_ok() -> None:
    rows = _rows(replace(HERE, versions=FrozenMap(list_pins())))
    assert rows["apache-tvm"][0] == rows["apache-tvm-ffi"][0] == "ok"


@pytest.mark.parametrize(
    ("versions", "state"),
    [
        ({"xgboost-cpu": "3"}, "ok"),
        ({"xgboost": "3"}, "ok"),
        ({"xgboost": "3", "xgboost-cpu": "3"}, "wrong"),
        ({}, "wrong"),
    ],
)
def test_xgboost(versions: dict[str, str], state: str) -> None:
    assert _rows(replace(HERE, versions=FrozenMap(versions)))["xgboost"][0] == state


BOTH = replace(HERE, codegens=("vulkan",), runtimes=("vulkan",), vulkan_backend="tvmbuild")
CANNOT = "cannot be compiled here"
LEFT_OUT = "TVMBUILD_VULKAN=tvm leaves tvmbuild's Vulkan out"


@pytest.mark.parametrize(
    ("here", "missing", "state", "detail", "remedies"),
    [
        (HERE, "loader", "missing", f"the code generator and the runtime {CANNOT}; no Vulkan loader", "`V"),
        (HERE, None, "missing", f"the code generator and the runtime {CANNOT}; the driver has Iris", "`"),
        (replace(BOTH, runtimes=()), "driver", "missing", f"the runtime {CANNOT}; no Vulkan driver", "`V"),
        (replace(BOTH, codegens=()), "device", "missing", f"the code generator {CANNOT}; no Vulkan device", "`V"),
        (BOTH, "loader", "ok", "code generator and runtime built in; no Vulkan loader", "V"),
        (BOTH, None, "ok", "code generator and runtime built in; the driver has Iris", "T"),
        (
            replace(HERE, vulkan_refusal=LEFT_OUT),
            None,
            "missing",
            "the code generator and the runtime left out; the driver has Iris",
            "T",
        ),
        (
            replace(BOTH, devices=("vulkan",)),
            None,
            "ok",
            "code generator and runtime built in; the driver has Iris",
            "",
        ),
    ],
)
def test_vulkan_says_which_half(
    here: Capabilities, missing: str | None, state: str, detail: str, remedies: str
) -> None:
    names = () if missing else ("Iris",)
    found = _rows(replace(here, vulkan_missing=missing, vulkan_devices=names))["Vulkan"]
    assert found[:2] == (state, detail)
    assert "".join(line[0] for line in found[2].splitlines()) == remedies


def test_cuda_without_a_compiler_names_the_packages() -> None:
    state, _, remedy = _rows(replace(HERE, nvcc=None))["CUDA"]
    assert (state, remedy) == ("missing", f"{INSTALL} (NVRTC; no GPU needed)")
    assert _rows(HERE)["CUDA"][:2] == ("ok", "nvcc 12.6; no GPU answers: packages are built, not run")


def test_linker_absent_is_wrong() -> None:
    assert _rows(replace(HERE, versions=FrozenMap()))["linker"][0] == "wrong"


def test_holders_of_device_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert list_holders() == []
    folder = runtime_dir()
    assert folder.parent == tmp_path
    folder.mkdir()
    with (folder / "local.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        found = list_holders()
    assert [device for device, _ in found] == ["local"]
    assert found[0][1].startswith(f"process {os.getpid()} (")
    assert found[0][1].endswith("exclusively")
    assert list_holders() == []


CARD = ("llvm", "cuda")
V3 = TargetSpec("v3", "llvm", FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2}))


@pytest.mark.parametrize(
    ("target", "state", "detail", "remedy"),
    [
        (V3, "ok", "is built here and runs on 2 threads", ""),
        (replace(V3, device=NoDevice()), "ok", "is built here; it has no device to run on", ""),
        (replace(V3, attributes=FrozenMap({"mcpu": "zen9"})), "missing", "is built here and does not run", "this CPU"),
        (replace(V3, link="icc"), "missing", "is not built here", "the compiler `icc` is not on PATH"),
        (
            replace(V3, kind="cuda", host=V3.attributes),
            "ok",
            "is built here and runs on this machine's cuda device",
            "",
        ),
        (
            replace(V3, kind="vulkan"),
            "missing",
            "is not built here",
            "the runtime that Vulkan code is packed with is not compiled",
        ),
    ],
)
def test_targets_of_the_project(target: TargetSpec, state: str, detail: str, remedy: str) -> None:
    (found,) = check_targets([target], replace(HERE, runnable_cpus=("x86-64-v3",), runtimes=CARD, devices=CARD))
    assert (found.state, found.what, found.detail) == (state, "target v3", detail)
    assert found.remedy.startswith(remedy)
    assert bool(found.remedy) == bool(remedy)


def test_a_project_with_mistakes_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models.yaml").write_text("models: {}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--cached"]) == 1
    assert "1 mistake in its YAML files" in " ".join(capsys.readouterr().out.split())


def test_this_machine_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    here = detect_capabilities()
    code = main(["doctor", "--cached"])
    out = capsys.readouterr().out
    assert here.host_cpu in out
    assert "ziglang" in out
    assert code == (1 if "wrong" in out.split() else 0)


def test_the_step_cache_is_measured(tmp_path: Path) -> None:
    off = check_cache(None)
    assert (off.state, off.detail.split(";")[0]) == ("ok", "off")
    spec = CacheSpec(tmp_path / "cache")
    assert check_cache(spec).detail == f"0 entries, 0.00 of 5 GB, in {spec.path}"
    output = tmp_path / "output"
    output.write_bytes(b"x" * 10_000_000)
    assert write_entry(spec.path, "0" * 64, {"package": (output, sha256_file(output))}, spec.size)
    assert check_cache(spec).detail == f"1 entry, 0.01 of 5 GB, in {spec.path}"
    unreadable = check_cache(CacheSpec(output))
    assert (unreadable.state, unreadable.detail) == ("missing", f"{output} cannot be read: Not a directory")
