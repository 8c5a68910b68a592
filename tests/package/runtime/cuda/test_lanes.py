"""Submitted calls on a card: copies run beside the kernels of other calls, and work on one memory has an order.

The driver is cuda_shim.cpp, which knows the order of the work on all streams.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run_child
from cuda_package import build_package_of_frames, build_package_that_returns_its_input
from cuda_shim import shim_environment

pytestmark = pytest.mark.compiler

OPEN = """
import numpy as np
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session
"""


def run(package: Path, code: str, log: Path, **options: str) -> tuple[list[str], list[str]]:
    """Return the lines that the program prints, and those of the shim."""
    told = run_child(f"{OPEN}session = Session({str(package)!r})\n{code}", shim_environment(log=str(log), **options))
    lines = log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("mistake")]
    return told.splitlines(), lines


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package_that_returns_its_input(tmp_path_factory.mktemp("lanes"))


SUBMIT = """
futures = []
for number in range(12):
    x = session.empty("x")
    x[...] = number
    futures.append(session.submit({"x": x}))
print([set(each.result(20)["same"].tolist()) for each in futures] == [{float(number)} for number in range(12)])
session.close()
"""


@pytest.mark.parametrize("devices", ["H100:90", "Orin:90:integrated"])
def test_outputs_are_those_of_their_inputs_and_all_work_is_ordered(package: Path, tmp_path: Path, devices: str) -> None:
    told, lines = run(package, SUBMIT, tmp_path / "log", devices=devices)
    assert told == ["True"]
    assert lines[-1].endswith("modules=0 streams=0 events=0 graphs=0")


def copies_and_kernels(lines: list[str]) -> list[str]:
    """Return the kinds of work on the card in the order in which they were given to it."""
    kinds = {"to device": "up", "launch": "kernel", "to host": "down", "graph": "kernel"}
    return [kind for line in lines for start, kind in kinds.items() if line.startswith(start) and " of " not in line]


def test_a_call_starts_before_the_one_before_it_is_finished(package: Path, tmp_path: Path) -> None:
    """No call waits on the host between its copies and its kernels: it only waits for its outputs."""
    code = """
x = {"x": session.empty("x")}
session.submit(x).result(20)
open(LOG, "a").write("here\\n")
[each.result(20) for each in [session.submit(x) for _ in range(20)]]
open(LOG, "a").write("there\\n")
session.close()
"""
    log = tmp_path / "log"
    _, lines = run(package, code.replace("LOG", repr(str(log))), log)
    work = lines[lines.index("here") + 1 : lines.index("there")]
    assert copies_and_kernels(work).count("up") == 20
    assert work.count("wait") == 20


def test_frames_have_lanes(tmp_path: Path) -> None:
    package = build_package_of_frames(tmp_path)
    code = """
frame = np.zeros((8, 8, 3), np.uint8)
futures = [session.submit_frame(frame, inputs={"z": np.full((2, 32), n, np.float32)}) for n in range(9)]
print([set(each.result(20)["same"].tolist()) for each in futures] == [{float(number)} for number in range(9)])
session.close()
"""
    told, lines = run(package, code, tmp_path / "log")
    assert told == ["True"]
    assert lines[-1].endswith("modules=0 streams=0 events=0 graphs=0")


@pytest.mark.parametrize(
    "fail",
    [
        "cuStreamCreate:2@1",
        "cuMemcpyHtoDAsync_v2:2@4",
        "cuMemcpyDtoHAsync_v2:2@4",
        "cuEventCreate:2@1",
        "cuEventRecord:2@2",
        "cuStreamWaitEvent:2@1",
        "cuMemHostAlloc:2@1",
        "cuGraphLaunch:2@2",
        "cuLaunchKernelEx:2@3",
        "cuStreamSynchronize:2@6",
    ],
)
def test_a_call_that_fails_alone_fails(package: Path, tmp_path: Path, fail: str) -> None:
    code = """
failed = []
for number in range(8):
    try: session.submit({"x": np.full((1, 3, 8, 8), number, np.float32)}).result(20)
    except TvmbuildError as error: failed.append(error.message)
print(failed)
session.close()
"""
    told, lines = run(package, code, tmp_path / "log", fail=fail)
    assert told[0].count("CUDA: ") == 1
    assert lines[-1].endswith("modules=0 streams=0 events=0 graphs=0")


def test_a_session_may_be_closed_while_its_calls_run(package: Path, tmp_path: Path) -> None:
    code = """
futures = [session.submit({"x": np.full((1, 3, 8, 8), number, np.float32)}) for number in range(4)]
session.close()
def is_right(number, future):
    if future.cancelled(): return True
    try: return set(future.result(20)["same"].tolist()) == {float(number)}
    except TvmbuildError as error: return "is closed" in error.message  # it had not begun
print(all(map(is_right, range(4), futures)))
"""
    told, lines = run(package, code, tmp_path / "log")
    assert told == ["True"]
    assert lines[-1].endswith("modules=0 streams=0 events=0 graphs=0")


def test_a_foreign_stream_is_waited_for_and_signalled(package: Path, tmp_path: Path) -> None:
    code = """
from tvmbuild.package.runtime.library import call
session.run({"x": np.zeros((1, 3, 8, 8), np.float32)})
stream = call("runtime.Device_StreamCreate", session.device)
class Stream:
    def __cuda_stream__(self): return 0, stream
class Torch: cuda_stream = stream
x = session.to_device(np.ones((1, 3, 8, 8), np.float32))
for each in (stream, Stream(), Torch()):
    open(LOG, "a").write("here\\n")
    out = session.run_on_device({"x": x}, stream=each)["y"]
    open(LOG, "a").write("there\\n")
for wrong in ("stream", True):
    try: session.run_on_device({"x": x}, stream=wrong)
    except TvmbuildError as error: print(error.message)
call("runtime.Device_StreamFree", session.device, stream)
session.close()
"""
    log = tmp_path / "log"
    told, lines = run(package, code.replace("LOG", repr(str(log))), log)
    assert told == ["'stream' is no CUDA stream", "True is no CUDA stream"]
    for _ in range(3):
        start, end = lines.index("here"), lines.index("there")
        work, lines = lines[start + 1 : end], lines[end + 1 :]
        assert work[0] == work[-1] == "wait for an event"
        assert copies_and_kernels(work).count("kernel") >= 2


def test_the_shim_finds_work_without_an_order(tmp_path: Path) -> None:
    """A copy on one stream, and a kernel or another copy on another one, without an event between them."""
    log = tmp_path / "log"
    program = """
from cuda_child import *
import ctypes
there = upload(np.ones(64, np.uint8))
stream = call("runtime.Device_StreamCreate", cuda())
host = call("runtime.TVMTensorAllocWithScope", tvm_ffi.Shape((64,)), "uint8", tvm_ffi.Device(3, 0), None)
copy_in, copy_out = (tvm_ffi.get_global_func("tvmbuild_cuda." + name) for name in ("copy_in", "copy_out"))
copy_in(stream, tvm_ffi.from_dlpack(np.ones(64, np.uint8)), there)
copy_out(stream, there, host)
call("runtime.Device_StreamSync", cuda(), stream)
print("ordered")
ORDERS
small = upload(np.ones(8, np.uint8))
for wrong in ((stream,), (stream, host), ("a", host, there), (stream, host, 1), (stream, host, small)):
    print(catch(copy_in, *wrong))
call("runtime.Device_StreamSync", cuda(), stream)
call("runtime.Device_StreamFree", cuda(), stream)
"""
    wrong = """
call("runtime.Device_SetStream", cuda(), stream)
copy_in(0, tvm_ffi.from_dlpack(np.ones(64, np.uint8)), there)
call("runtime.Device_SetStream", cuda(), 0)
copy_in(0, tvm_ffi.from_dlpack(np.ones(64, np.uint8)), there)
copy_out(stream, there, host)
copy_in(0, host, there)
"""
    told = run_child(program.replace("ORDERS", ""), shim_environment(log=str(log))).splitlines()
    assert told[0] == "ordered"
    assert [line.split(": ")[0] for line in told[1:]] == ["CUDA"] * 5
    assert not [line for line in log.read_text().splitlines() if line.startswith("mistake")]
    run_child(program.replace("ORDERS", wrong), shim_environment(log=str(log)))
    assert "mistake: no order of to device 64 and to host 64" in log.read_text().splitlines()
