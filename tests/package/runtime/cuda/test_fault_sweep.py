"""Each function of the driver fails once, in a child of its own: a message names the call, nothing leaks or crashes.

The driver is cuda_shim.cpp, which has two cards: one with memory of its own, and an integrated one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_package import build_package_for_old_drivers
from cuda_shim import SOURCE, shim_environment

pytestmark = pytest.mark.compiler

CARDS = "Orin:90:integrated,H100:90"
PROGRAM = """
import ctypes, gc, sys
from cuda_child import *
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.runtime.shared_memory import page_locked_array

x = {"x": np.ones((1, 3, 8, 8), np.float32)}
threads = ("blockIdx.x", "threadIdx.x")
kernels = (Kernel("show0", ()), Kernel("show1", (INT32,), (*threads, COOPERATIVE)))
kernels += (Kernel("show2", (POINTER, INT32), (*threads, SHARED)),)
ones = np.ones(1000, np.uint8)

def infer():
    with Session(sys.argv[1]) as session:
        for _ in range(2): session.run(x)

def launch():
    module = load_module(write_blob(*kernels))
    module["show0"](1, 1)
    module["show1"](7, 1, 1)
    module["show2"](ctypes.c_void_p(0), 7, 1, 1, 60000)

def copy():
    first, second, third = upload(ones), upload(ones, cuda(1)), empty(1000)
    call("runtime.TVMTensorCopyFromTo", first, third)
    assert download(third).sum() == 1000
    call("runtime.TVMTensorCopyFromTo", first, second)
    assert download(second).sum() == 1000

def lock():
    page_locked_array((64,), "uint8")

def wait():
    empty(8)
    stream = call("runtime.Device_StreamCreate", cuda())
    try: call("runtime.Device_StreamSyncFromTo", cuda(), stream, 0)
    finally: call("runtime.Device_StreamFree", cuda(), stream)

def ask():
    call("runtime.GetDeviceAttr", 2, 0, 15)

for turn in range(2):
    for act in (infer, launch, copy, lock, wait, ask):
        try: act()
        except (TvmbuildError, RuntimeError) as error: print(turn, act.__name__, str(error).splitlines()[0])
        gc.collect()
"""
ACTS = ("infer", "launch", "copy", "lock", "wait", "ask")
SAID = {
    "cuInit": "the driver does not start",
    "cuDevicePrimaryCtxRetain": "be started",
    "cuEventCreate": "make an event",
    "cuEventRecord": "record an event",
    "cuStreamWaitEvent": "wait for an event",
    "cuFuncLoad": "load kernel conv2d_kernel",
    "cuModuleGetFunction": "load kernel conv2d_kernel",
    "cuModuleLoadDataEx": "load the kernels",
    "cuFuncSetAttribute": "allow 60000 bytes of shared memory for kernel show2",
    "cuGraphInstantiateWithFlags": "make a graph",
    "cuGraphUpload": "prepare a graph",
    "cuGraphLaunch": "launch a graph",
    "cuStreamBeginCapture_v2": "capture a graph",
    "cuStreamEndCapture": "capture a graph",
    "cuLaunchCooperativeKernel": "launch kernel show1",
    "cuLaunchKernel": "launch kernel show0",
    "cuLaunchKernelEx": "launch kernel conv2d_kernel",
    "cuMemAlloc_v2": "allocate memory",
    "cuMemHostAlloc": "allocate memory",
    "cuMemGetInfo_v2": "tell its free memory",
    "cuMemcpyDtoDAsync_v2": "copy in its memory",
    "cuMemcpyDtoHAsync_v2": "copy from its memory",
    "cuMemcpyHtoDAsync_v2": "copy to its memory",
    "cuMemcpyPeerAsync": "copy from another card",
    "cuStreamCreate": "make a stream",
    "cuStreamSynchronize": "finish its work",
}
"""Function → the part of the message about a call that failed."""
SHORT = ("cuMemAlloc_v2", "cuMemHostAlloc")
"""Functions whose message about a lack of memory has the sizes."""
SILENT = {
    "cuMemFree_v2": "allocations",
    "cuMemFreeHost": "",
    "cuModuleUnload": "modules",
    "cuStreamDestroy_v2": "streams",
    "cuEventDestroy_v2": "events",
    "cuGraphDestroy": "graphs",
    "cuGraphExecDestroy": "graphs",
    "cuCtxSynchronize": "",
    "cuPointerGetAttribute": "",
}
"""Function whose failure cannot be told or is an answer → what stays if it fails."""
NOT_OURS = {"cuEventSynchronize", "cuEventElapsedTime"}
"""Functions that only the timer of kernels calls."""
SHORTAGE, LOSS = 2, 700


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package_for_old_drivers(tmp_path_factory.mktemp("faults"))


def run(package: Path, log: Path, *, is_old: bool = False, **options: str) -> tuple[list[str], list[str]]:
    """Return the messages of a child, and the lines of the shim."""
    environment = shim_environment(is_old=is_old, log=str(log), devices=CARDS, **options)
    command = [sys.executable, "-c", PROGRAM, str(package)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    return done.stdout.splitlines(), log.read_text().splitlines() if log.exists() else []


def run_with_fault(package: Path, log: Path, fail: str) -> tuple[list[str], list[str]]:
    """Run the child as `run` does, with the driver whose functions the runtime calls."""
    return run(package, log, is_old=fail.startswith("cuLaunchCooperativeKernel"), fail=fail)


def count_left(lines: list[str]) -> dict[str, int]:
    """Return the number of objects of each kind that the driver still had when the child ended."""
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", lines[-1])}


@pytest.fixture(scope="module")
def left_without(package: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The objects that are left without a fault: TVM keeps memory for the next session."""
    return count_left(run(package, tmp_path_factory.mktemp("without") / "log")[1])


def test_the_tables_have_every_function_that_can_fail() -> None:
    names = set(re.findall(r'(?:BEGIN|NEED_CONTEXT)\("(\w+)"\)', SOURCE.read_text()))
    assert names == SAID.keys() | SILENT.keys() | NOT_OURS


@pytest.mark.parametrize("is_old", [False, True])
def test_without_a_fault_only_memory_is_left(package: Path, tmp_path: Path, is_old: bool) -> None:
    told, lines = run(package, tmp_path / "log", is_old=is_old)
    assert told == []
    assert not [line for line in lines if line.startswith("mistake")]
    assert {"graph", "between 1000", "within 1000"} <= set(lines)
    left = count_left(lines)
    assert not any(left[name] for name in ("modules", "streams", "events", "graphs"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(SAID.keys() | SILENT.keys()))
def test_a_call_without_memory_is_told_and_the_next_ones_work(
    package: Path, left_without: dict[str, int], tmp_path: Path, name: str
) -> None:
    told, lines = run_with_fault(package, tmp_path / "log", f"{name}:{SHORTAGE}@1")
    if name in SAID:
        assert SAID[name] in told[0] or (name in SHORT and "out of memory on Orin" in told[0])
        assert "out of memory" in told[0]
        assert len(told) == (1 if name != "cuInit" else 12)
    else:
        assert told == []
    assert not [line for line in lines if line.startswith("mistake")]
    if name != "cuInit":
        kept = SILENT.get(name, "")
        assert count_left(lines) == {kind: count + (kind == kept) for kind, count in left_without.items()}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(SAID.keys() | SILENT.keys()))
def test_a_call_that_ends_the_context_is_told_and_so_is_every_later_one(
    package: Path, tmp_path: Path, name: str
) -> None:
    told, lines = run_with_fault(package, tmp_path / "log", f"{name}:{LOSS}@1")
    assert SAID.get(name, "") in told[0]
    first = next(place for place, act in enumerate(ACTS) if f" {act} " in told[0])
    assert [line.split()[1] for line in told] == [*ACTS[first:], *ACTS]
    assert name == "cuInit" or all(" was lost " in line for line in told)
    assert all("an illegal memory access was encountered" in line for line in told)
    assert not [line for line in lines if line.startswith("mistake")]
