from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.planning import detection
from tvmbuild.planning.detection import detect_capabilities, forget_probe

DAMAGES = ("", "[]", "{}", '{"nonsense": 1}', '{"codegens": 3')


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tvmbuild" / "probe"


def test_probe_asks_tvm_in_another_process_and_is_remembered(cache: Path) -> None:
    found = detect_capabilities(["no-such-compiler", "sh"])
    assert "llvm" in found.codegens
    assert "llvm" in found.devices
    assert found.machine == platform.machine()
    assert found.version("apache-tvm") is not None
    assert found.version("no-such-tool") is None
    assert list(found.linkers) == ["sh"]
    stored = next(cache.glob("*.json"))
    before = stored.stat().st_mtime_ns
    assert detect_capabilities(["sh"]) == found
    assert stored.stat().st_mtime_ns == before


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the levels are x86-64's")
def test_cpu_levels_are_those_of_the_kernel(cache: Path) -> None:  # noqa: ARG001
    found = detect_capabilities()
    flags = Path("/proc/cpuinfo").read_text().split()
    assert "x86-64" in found.runnable_cpus
    assert ("x86-64-v3" in found.runnable_cpus) == ("avx2" in flags)
    assert ("x86-64-v4" in found.runnable_cpus) == ("avx512vl" in flags)
    assert ("amx-tile" in found.cpu_features) == ("amx_tile" in flags)


@pytest.mark.parametrize("damage", ["{", *(pytest.param(text, marks=pytest.mark.nightly) for text in DAMAGES)])
def test_a_damaged_cache_is_made_again(cache: Path, damage: str) -> None:
    found = detect_capabilities()
    stored = next(cache.glob("*.json"))
    stored.write_text(damage)
    assert detect_capabilities() == found
    assert json.loads(stored.read_text())["machine"] == platform.machine()


def test_a_cache_that_cannot_be_written_is_only_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "llvm" in detect_capabilities().codegens


def test_forgetting_asks_again(cache: Path) -> None:
    detect_capabilities()
    forget_probe()
    assert list(cache.glob("*.json")) == []


def test_a_vulkan_runtime_that_comes_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "place_prebuilt", lambda _, machine: tmp_path / machine)
    without = detection._probe_key()
    assert detection._probe_key() == without
    (tmp_path / machine_of(platform.machine())).touch()
    assert detection._probe_key() != without
