"""The tuner on a machine with NVIDIA's driver only: candidates are machine code, and tvmbuild's runtime times them."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run_child
from cuda_shim import shim_environment

pytestmark = pytest.mark.compiler

BUILD = """
from pathlib import Path
from gpu_kernels import build_product
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.machine.target import tvm_target
limits = {"max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "thread_warp_size": 32}
host = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"})
target = tvm_target("cuda", FrozenMap({"arch": "sm_90", **limits}), host)
"""


def test_a_candidate_is_timed_with_the_driver_alone(tmp_path: Path) -> None:
    log, library = tmp_path / "log", tmp_path / "twice.so"
    environment = shim_environment(log=str(log))
    built = f"{BUILD}build_product(Path({str(library)!r}), target, 2, 1024)"
    run_child(built, {**environment, "LD_LIBRARY_PATH": ""})  # NVRTC calls functions that the shim lacks
    assert b"__global__" not in library.read_bytes()
    program = f"""
from tvmbuild.package.runtime.host import find_device
find_device("cuda")  # before TVM, whose own runtime would be there if this machine has libcudart
from tvmbuild.devices.candidates import Timing
from tvmbuild.devices.local.cuda_timer import time_kernel
print(time_kernel({str(library)!r}, (("float32", (1024,)), ("float32", (1024,))), Timing(1, 2, 1)))
maps = open("/proc/self/maps").read()
print([name for name in ("libcudart", "libtvm_runtime_cuda", "libtvmbuild_cuda", "libcuda.so.1") if name in maps])
"""
    told = run_child(program, environment).splitlines()
    assert told == ["[0.0025, 0.0025]", "['libtvmbuild_cuda', 'libcuda.so.1']"]
    lines = log.read_text().splitlines()
    assert "load sm_90 on device 0" in lines
    assert not [line for line in lines if line.startswith("mistake")]
