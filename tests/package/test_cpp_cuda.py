"""C++ programs run CUDA packages with the driver only: the driver is tests/support/cuda_shim.cpp."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cpp_programs import SUPPORT, build_by_cmake, install_programs
from cuda_package import (
    build_cuda_package,
    build_package_for_old_drivers,
    build_package_of_frames,
    build_package_that_returns_its_input,
)
from cuda_shim import shim_environment
from made_once import make_once

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.package.runtime.native_build import CUDA
from tvmbuild.package.runtime.native_library import find_library

pytestmark = [pytest.mark.compiler, pytest.mark.toolchain]


def run_bench(package: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run bench_model, which finds the library that is installed beside TVM's, for one call."""
    command = [str(install_programs() / "bin/bench_model"), str(package), "--repeat", "1", "--number", "1"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)


def test_nothing_but_the_driver_is_loaded(tmp_path: Path) -> None:
    log, package = tmp_path / "log", build_cuda_package(tmp_path)
    environment = shim_environment(log=str(log))
    environment.pop(CUDA.choice)
    done = run_bench(package, **environment, LD_DEBUG="files")
    assert done.returncode == 0, done.stderr[-500:]
    loaded = [name for name in ("libcudart", "libnvrtc", "libtvm_runtime_cuda", "libcuda.so.1") if name in done.stderr]
    assert loaded == ["libcuda.so.1"]
    lines = log.read_text().splitlines()
    assert "graph" in lines
    assert not [line for line in lines if line.startswith("mistake")]


def test_a_driver_of_cuda_11_4_needs_no_newer_function(tmp_path: Path) -> None:
    log = tmp_path / "log"
    done = run_bench(build_package_for_old_drivers(tmp_path), **shim_environment(is_old=True, log=str(log)))
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert "graph" in lines
    assert lines[-1].endswith("modules=0 streams=0 events=0 graphs=0")
    assert not [line for line in lines if line.startswith("mistake")]


@pytest.mark.parametrize(
    ("attributes", "options", "message"),
    [
        (
            {},
            {"is_old": "yes"},
            "the package's kernels need a driver of CUDA 12.0 or later (here); this machine's",
        ),
        ({}, {"devices": "Thor:110"}, "the package's kernels are for sm_90 (here); this card, Thor, is sm_110"),
        ({"arch": "sm_86"}, {"devices": "O:87"}, "the package's kernels are for sm_86 (here); this card, O, is sm_87"),
        ({"ptx": True}, {"devices": "Thor:110"}, ""),
        ({}, {"fail": "cuStreamSynchronize:700"}, "CUDA: NVIDIA H100 shim was lost when it should finish its work"),
    ],
)
def test_cpp_says_what_python_says(
    tmp_path: Path, attributes: dict[str, str], options: dict[str, str], message: str
) -> None:
    done = run_bench(build_cuda_package(tmp_path, **attributes), **shim_environment(**options))
    assert done.returncode == (1 if message else 0), done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(("build", "same"), [(build_cuda_package, 0), (build_package_that_returns_its_input, 12)])
@pytest.mark.parametrize("devices", ["Orin:90:integrated", "H100:90"])
def test_outputs_stay_and_an_integrated_card_needs_no_copies(
    tmp_path: Path, devices: str, build: Callable[[Path], Path], same: int
) -> None:
    made = make_once("C++ devices", lambda folder: build_by_cmake(folder, source=SUPPORT / "cpp_devices"))
    log, package = tmp_path / "log", build(tmp_path)
    environment = shim_environment(log=str(log), devices=devices)
    library = str(find_library(CUDA, machine_of(platform.machine())))
    command = [str(made / "build/sharing"), str(package), "3"]
    done = subprocess.run(
        command, env={**environment, "TVMBUILD_CUDA_LIBRARY": library}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"(1, 3, 8, 8) {same}\n"
    lines = log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("mistake")]
    weights = lines.index("to device 324")  # the card's own, copied once
    copied = sum(line.startswith(("to device", "to host")) for line in lines[weights + 1 :])
    assert (copied == 0) == ("integrated" in devices and same == 0)


@pytest.mark.parametrize("build", [build_package_of_frames, build_package_that_returns_its_input])
@pytest.mark.parametrize("devices", ["Orin:90:integrated", "H100:90"])
def test_calls_in_the_background_overlap_in_an_order(
    tmp_path: Path, devices: str, build: Callable[[Path], Path]
) -> None:
    """The shim finds work of several streams that uses the same memory without an order."""
    made = make_once("C++ devices", lambda folder: build_by_cmake(folder, source=SUPPORT / "cpp_devices"))
    log, package = tmp_path / "log", build(tmp_path)
    environment = shim_environment(log=str(log), devices=devices)
    library = str(find_library(CUDA, machine_of(platform.machine())))
    done = subprocess.run(
        [str(made / "build/background"), str(package), "20"],
        env={**environment, "TVMBUILD_CUDA_LIBRARY": library},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    frames = ["frames: 20 right, 1 failed"] if build is build_package_of_frames else []
    assert done.stdout.splitlines() == [
        "20 right, 0 failed",
        "on a stream: 1 right",
        "at an end in a callback: 2 of 2",
        *frames,
    ]
    lines = log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("mistake")]
    assert lines[-1].endswith("modules=0 streams=1 events=0 graphs=0")  # the program's own


def test_the_setting_and_the_path(tmp_path: Path) -> None:
    package, environment = build_cuda_package(tmp_path), {**shim_environment(), "LD_LIBRARY_PATH": ""}
    library = str(find_library(CUDA, machine_of(platform.machine())))
    told = run_bench(package, **{**environment, CUDA.choice: "tvm", "TVMBUILD_CUDA_LIBRARY": library}).stderr
    assert told.startswith("error: the package needs TVM's cuda runtime, which is not there: ")
    told = run_bench(package, **{**environment, CUDA.choice: "ours"}).stderr
    assert told == "error: TVMBUILD_CUDA=ours chooses no runtime: write own or tvm, or unset it\n"
    told = run_bench(package, **environment, TVMBUILD_CUDA_LIBRARY=str(tmp_path / "none.so")).stderr
    assert told.startswith(f"error: the CUDA runtime cannot be used: {tmp_path / 'none.so'}: cannot open shared object")
    missing = "the package needs a cuda device, and this machine has none that answers: the driver is not installed"
    assert run_bench(package, **environment, TVMBUILD_CUDA_LIBRARY=library).stderr.startswith(f"error: {missing}")
