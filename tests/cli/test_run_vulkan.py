"""A Vulkan package on a machine with Vulkan, and on one without."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_package import ANY_X86, build_package, change_package, compile_package

import tvmbuild
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.cli import main
from tvmbuild.errors import TvmbuildError, end_sentence
from tvmbuild.package.archive import read_metadata
from tvmbuild.planning.detection import detect_capabilities
from tvmbuild.targets.vulkan import explain_vulkan
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("own_folder")]
DEVICE = FrozenMap(sorted(FAMILIES["intel-iris-xe"].items()))


@pytest.fixture(scope="module")
def no_vulkan() -> str | None:
    """Return why Vulkan packages do not run here; None if they do."""
    return explain_vulkan(detect_capabilities())


@pytest.fixture(scope="module")
def vulkan_package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return build_package(digits, tmp_path_factory.mktemp("vulkan"), DEVICE, "vulkan", ANY_X86)


def test_a_package_is_refused_in_the_doctors_words(
    package: Path, no_vulkan: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    if no_vulkan is None:
        pytest.skip("Vulkan packages run here")
    target = replace(read_metadata(package).target, kind="vulkan", attributes=FrozenMap(), host=ANY_X86)
    path = change_package(package, Path("vulkan.tar"), target=target)
    with pytest.raises(TvmbuildError) as caught:
        tvmbuild.load(path)
    assert caught.value.message == "the package runs on a Vulkan device, and this machine cannot run it"
    assert caught.value.hint == no_vulkan
    assert main(["run", str(path)]) != 0
    assert f"error: {caught.value.message}\n  hint: {end_sentence(no_vulkan)}\n" in capfd.readouterr().err


@pytest.mark.vulkan
def test_a_package_computes_what_the_model_does(
    vulkan_package: Path, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import onnxruntime

    command = ["run", str(vulkan_package), "--output", "out.npz", "--profile", "--profile-json", "p.json"]
    inputs = {info.name: np.ones(info.shape, info.dtype) for info in read_metadata(vulkan_package).inputs}
    assert main([*command, "--fill", "ones", "--repeat", "3"]) == 0
    (want,) = onnxruntime.InferenceSession(str(digits)).run(None, inputs)
    with np.load("out.npz") as arrays:
        (got,) = (arrays[name] for name in arrays.files)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    profile = json.loads(Path("p.json").read_text())
    assert profile["clock"] == "device"
    called = {info.function for info in read_metadata(vulkan_package).operators or ()}
    assert len(called) > 5
    assert {row["function"] for row in profile["operators"]} == called
    assert not any(row["on_host"] for row in profile["operators"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[-2:] == [
        "every operator ran on the vulkan device",
        "timed by the vulkan device; what the latency has beyond the sum is launching and waiting",
    ]


@pytest.mark.vulkan
def test_operators_are_timed_on_the_host_where_the_device_has_no_clock(
    vulkan_package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVMBUILD_VULKAN_WITHOUT", "timestamps")
    assert main(["run", str(vulkan_package), "--profile", "--profile-json", "p.json", "--repeat", "1"]) == 0
    profile = json.loads(Path("p.json").read_text())
    assert profile["clock"] == "host"
    called = {info.function for info in read_metadata(vulkan_package).operators or ()}
    assert {row["function"] for row in profile["operators"]} == {*called, "vm.builtin"}
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("timed on the host, with a wait after each call: ")


@pytest.mark.vulkan
def test_a_package_is_the_same_each_time(vulkan_package: Path, digits: Path, tmp_path: Path) -> None:
    again = compile_package(digits, tmp_path, DEVICE, "vulkan", ANY_X86)
    assert again.read_bytes() == vulkan_package.read_bytes()
