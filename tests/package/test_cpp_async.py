"""C++ calls in the background: in order, only the newest, with errors, from callbacks, and at the session's end."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpp_programs import SUPPORT, build_by_cmake, run_program
from cuda_package import make_net_of_frames, save_net
from made_once import make_once
from small_package import build_package

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


def test_frames_in_the_background(tmp_path: Path) -> None:
    graph, options = make_net_of_frames()
    package = build_package(save_net(tmp_path, graph), tmp_path, **options)
    made = make_once("C++ devices", lambda folder: build_by_cmake(folder, source=SUPPORT / "cpp_devices"))
    done = run_program(made / "build" / "background", package, 40)
    assert done.returncode == 0, done.stderr
    told = "on a stream: net runs on cpu:0, which has no CUDA streams"
    assert done.stdout.splitlines() == [
        "40 right, 0 failed",
        told,
        "at an end in a callback: 1 of 1",
        "frames: 40 right, 1 failed",
    ]
