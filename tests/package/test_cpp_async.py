"""C++ calls in the background: in order, only the newest, with errors, from callbacks, and at the session's end."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_programs import SUPPORT, build_by_cmake, run_program, use_pythons_vulkan
from cuda_package import make_net_of_frames, save_net
from device_kinds import attributes_of
from made_once import make_once
from small_package import build_package
from vulkan_devices import HOST

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap

pytestmark = [pytest.mark.compiler, pytest.mark.toolchain, pytest.mark.nightly]


@pytest.mark.parametrize("options", [(), ("-DTVMBUILD_SANITIZE=ON",)])
def test_calls_in_the_background(tmp_path: Path, digits: Path, options: tuple[str, ...]) -> None:
    build_by_cmake(tmp_path, *options, source=SUPPORT / "cpp_async")
    done = run_program(tmp_path / "build" / "async", build_package(digits, tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "in order: 400 done, 0 different",
        "newest: 49 cancelled at once, 1 done, 0 different",
        "wrong inputs: 1 failed",
        "in a callback: a callback cannot wait for room among the calls: use `newest`",
        "from a callback: 1 done",
        "at the end: 1 cancelled",
        "added at the end: 1 cancelled",
    ]


@pytest.mark.parametrize("kind", ["llvm", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_frames_in_the_background(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "vulkan":
        use_pythons_vulkan(monkeypatch)
    graph, options = make_net_of_frames()
    host: Attributes = HOST if kind == "vulkan" else FrozenMap()
    package = build_package(save_net(tmp_path, graph), tmp_path, attributes_of(kind), kind, host, **options)
    made = make_once("C++ devices", lambda folder: build_by_cmake(folder, source=SUPPORT / "cpp_devices"))
    done = run_program(made / "build" / "background", package, 40)
    assert done.returncode == 0, done.stderr
    device = "vulkan" if kind == "vulkan" else "cpu"
    told = f"on a stream: net runs on {device}:0, which has no CUDA streams"
    assert done.stdout.splitlines() == [
        "40 right, 0 failed",
        told,
        "at an end in a callback: 2 of 2" if kind == "vulkan" else "at an end in a callback: 1 of 1",
        "frames: 40 right, 1 failed",
    ]
