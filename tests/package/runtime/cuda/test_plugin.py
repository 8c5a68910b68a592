"""The CUDA runtime of a process: tvmbuild's by default, beside TVM's Python package, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from children import run_child
from cuda_package import build_cuda_package
from cuda_shim import shim_environment

from tvmbuild.base.nvrtc import list_pip_folders
from tvmbuild.package.runtime.native_build import CUDA

pytestmark = pytest.mark.compiler

WHOSE = """
import tvm_ffi
def whose():
    has = lambda name: tvm_ffi.get_global_func(name, allow_missing=True) is not None
    return "own" if has("tvmbuild_cuda.devices") else "tvm's" if has("device_api.cuda") else "none"
from tvmbuild.package.runtime.host import find_device
from tvmbuild.errors import TvmbuildError
"""


def with_cudart(choice: str | None = None) -> dict[str, str]:
    """Return the environment of a child that can load TVM's runtime: the driver is the shim, and libcudart is pip's."""
    folder = next((each / "lib" for each in list_pip_folders() if (each / "lib/libcudart.so.13").is_file()), None)
    if folder is None:
        pytest.skip("libcudart.so.13 is not installed")
    environment = shim_environment()
    environment["LD_LIBRARY_PATH"] += f"{os.pathsep}{folder}"
    environment.pop(CUDA.choice)
    return environment if choice is None else {**environment, CUDA.choice: choice}


def test_tvms_python_package_goes_on_beside_it() -> None:
    program = """
print(find_device("cuda"), whose())
import tvm
print(whose(), tvm.cuda().exist, tvm.cuda().compute_version)
print(tvm.target.Target({"kind": "cuda", "from_device": 0}).attrs["arch"][:5])
print("tvm_runtime_cuda" in tvm.base._LOADED_LIBS)
print(tvm.runtime.tensor([1.0, 2.0], tvm.cuda()).numpy().sum())
"""
    told = run_child(WHOSE + program, with_cudart()).splitlines()
    assert told == ["cuda:0 own", "own True 9.0", "sm_90", "False", "3.0"]


def test_what_tvm_has_loaded_stays() -> None:
    program = """
import tvm
print(whose())
try: find_device("cuda")
except TvmbuildError as error: print(error.message)
print(whose())
"""
    told = run_child(WHOSE + program, with_cudart("own")).splitlines()
    assert told == ["tvm's", "TVMBUILD_CUDA=own, but this process has loaded TVM's CUDA runtime already", "tvm's"]


def test_a_setting_leaves_it_out() -> None:
    program = """
try: find_device("cuda")
except TvmbuildError as error: print(error.message)
print(whose())
"""
    assert run_child(WHOSE + program, with_cudart("tvm")).splitlines()[-1] == "tvm's"
    told = run_child(WHOSE + program, {**shim_environment(), CUDA.choice: "tvm", "LD_LIBRARY_PATH": ""}).splitlines()
    assert told[0].startswith("the package needs TVM's cuda runtime, which is not there: ")
    assert told[1] == "none"


def test_the_planner_sees_a_card_with_the_driver_alone() -> None:
    program = "from tvmbuild.planning.probe import probe\nfound = probe()\nprint(found.runtimes, found.devices)"
    environment = shim_environment()
    environment.pop(CUDA.choice)
    told = run_child(program, environment)
    assert told.count("'cuda'") == 2
    assert run_child(program, {**environment, "LD_LIBRARY_PATH": ""}).count("'cuda'") == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("attributes", "options", "message"),
    [
        ({}, {}, None),
        (
            {},
            {"is_old": "yes"},
            "the package's kernels need a driver of CUDA 12.0 or later (here); this machine's",
        ),
        ({"driver": "12.2"}, {"driver": "12010"}, "the package's kernels need a driver of CUDA 12.2 or later (here)"),
        ({}, {"devices": "Thor:110"}, "the package's kernels are for sm_90 (here); this card, Thor, is sm_110"),
        ({"arch": "sm_86"}, {"devices": "O:87"}, "the package's kernels are for sm_86 (here); this card, O, is sm_87"),
        ({"ptx": True}, {"devices": "Thor:110", "driver": "13000"}, None),
        ({"ptx": True}, {"devices": "A:86"}, "the package's kernels are for sm_90 (here); this card, A, is sm_86"),
    ],
)
def test_a_driver_or_card_that_does_not_fit_is_told_at_load(
    tmp_path: Path, attributes: dict[str, str], options: dict[str, str], message: str | None
) -> None:
    package = build_cuda_package(tmp_path, **attributes)
    program = f"""
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session
import numpy as np
try:
    with Session({str(package)!r}) as session: print(session.run({{"x": np.ones((1, 3, 8, 8), np.float32)}})["y"].shape)
except TvmbuildError as error: print(error.message)
"""
    told = run_child(program, shim_environment(**options)).splitlines()[-1]
    assert told.startswith(message or "(1, 3, 8, 8)")
