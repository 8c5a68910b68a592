"""Integrated cards: the CPU and the kernels use the same memory for inputs and outputs, and nothing is copied."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run_child
from cuda_package import build_cuda_package, build_package_of_frames
from cuda_shim import shim_environment

pytestmark = pytest.mark.compiler

INTEGRATED = "Orin:90:integrated"
COPIES = ("to device", "to host", "within", "between")
OPEN = """
import numpy as np
from tvmbuild.package.runtime.session import Session
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cuda_package(tmp_path_factory.mktemp("shared"))


def run(package: Path, code: str, log: Path, **options: str) -> tuple[list[str], list[str]]:
    """Return the lines that the program prints, and those of the shim after the package was opened."""
    opened = f"session = Session({str(package)!r})\nopen({str(log)!r}, 'w').close()\n"
    told = run_child(OPEN + opened + code, shim_environment(log=str(log), **options)).splitlines()
    lines = log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("mistake")]
    return told, lines


def copies_in(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(COPIES)]


RUN = """
first = session.run({"x": np.ones((1, 3, 8, 8), np.float32)})["y"]
second = session.run({"x": np.ones((1, 3, 16, 8), np.float32)[:, :, ::2]})["y"]
mine = session.empty("x")
mine[...] = 1
third = session.run({"x": mine})["y"]
print(len({each.ctypes.data for each in (first, second, third)}), first.shape, first.flags.writeable)
print(session.to_host(session.run_on_device({"x": mine})["y"]).shape)
"""


def test_inputs_and_outputs_are_not_copied(package: Path, tmp_path: Path) -> None:
    told, lines = run(package, RUN, tmp_path / "log", devices=INTEGRATED)
    assert told == ["3 (1, 3, 8, 8) True", "(1, 3, 8, 8)"]
    assert copies_in(lines) == []
    own = [line for line in lines if line.startswith("allocate") and "on the host" not in line]
    assert own == ["allocate 4096"] * 2  # what lies between the kernels of the graph is the card's own
    assert lines[-1].startswith("end allocations=")


FRAMES = """
frame, mine = np.zeros((8, 8, 3), np.uint8), session.empty("z")
run = lambda z: session.run_frame(frame, "rgb8", inputs={"z": z})["same"]
outputs = [run(np.full((2, 32), value, np.float32)) for value in (1, 2)]
mine[...] = 3
outputs.append(run(mine))
mine[...] = 4
print([set(each.tolist()) for each in outputs])
"""


def test_an_output_of_a_frame_that_is_an_input_stays(tmp_path: Path) -> None:
    """The next call, or the caller, writes into the input."""
    told, _ = run(build_package_of_frames(tmp_path), FRAMES, tmp_path / "log", devices=INTEGRATED)
    assert told == ["[{1.0}, {2.0}, {3.0}]"]


def test_weights_stay_the_cards_own(package: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    run_child(f"{OPEN}session = Session({str(package)!r})", shim_environment(log=str(log), devices=INTEGRATED))
    lines = log.read_text().splitlines()
    assert "to device 324" in lines
    assert not [line for line in lines if "on the host" in line]


@pytest.mark.parametrize("options", [{}, {"devices": INTEGRATED, "left_out": "yes"}])
def test_other_cards_and_a_setting_copy(
    package: Path, tmp_path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if options.pop("left_out", None):
        monkeypatch.setenv("TVMBUILD_CUDA_WITHOUT", "unified_memory,")
    told, lines = run(package, RUN, tmp_path / "log", **options)
    assert told == ["3 (1, 3, 8, 8) True", "(1, 3, 8, 8)"]
    assert copies_in(lines) == ["to device 768", "to host 768"] * 4


def test_shared_memory_is_written_when_the_kernels_before_have_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = """
from cuda_child import *
from tvmbuild.package.runtime import shared_memory
show = load_module(write_blob(Kernel("show0", ())))["show0"]
there = shared_memory.share_on_device(tvm_ffi.from_dlpack(shared_memory.page_locked_array((64,), "uint8")), cuda())
for value in (1, 2):
    show(1, 1)
    call("runtime.TVMTensorCopyFromTo", tvm_ffi.from_dlpack(np.full(64, value, np.uint8)), there)
    print(download(there).sum())
"""
    assert run_child(program, shim_environment(log=str(log), devices=INTEGRATED)).splitlines() == ["64", "128"]
    lines = [line.split()[0] for line in log.read_text().splitlines() if line.startswith(("launch", "wait", "to"))]
    # Before the write; TVM's, at the end of a copy; before the read.
    assert lines == ["launch", "wait", "wait", "wait"] * 2


def test_shared_memory_is_released_when_the_kernels_of_all_streams_have_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = """
from cuda_child import *
from tvmbuild.package.runtime import shared_memory
show = load_module(write_blob(Kernel("show0", ())))["show0"]
array = shared_memory.page_locked_array((64,), "uint8")
there = shared_memory.share_on_device(tvm_ffi.from_dlpack(array), cuda())
stream = call("runtime.Device_StreamCreate", cuda())
call("runtime.Device_SetStream", cuda(), stream)
show(1, 1)
call("runtime.Device_SetStream", cuda(), 0)
del array
show(1, 1)
del there
"""
    run_child(program, shim_environment(log=str(log), devices=INTEGRATED))
    lines = log.read_text().splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("launch", "mistake"))] == ["launch"] * 2
    assert lines.count("wait for the card") == 1


def test_a_tensor_and_its_array_are_one_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = """
from cuda_child import *
from tvmbuild.package.runtime import shared_memory
from tvmbuild.package.runtime.tensors import to_arrays
print(shared_memory.shares_memory(cuda()), shared_memory.shares_memory(tvm_ffi.device("cpu", 0)))
array = shared_memory.page_locked_array((4,), "float32")
array[...] = 1, 2, 3, 4
there = shared_memory.share_on_device(tvm_ffi.from_dlpack(array), cuda())
print(there.device, there.shape, there.dtype, there.data_ptr() == array.ctypes.data)
back = shared_memory.share_on_host(there)
array[0] = 9
del array, there
print(back, back.flags.writeable)
print(shared_memory.share_on_device(tvm_ffi.from_dlpack(np.ones(4)), cuda()), shared_memory.share_on_host(empty(8)))
there = shared_memory.share_on_device(tvm_ffi.from_dlpack(back), cuda())
one, two = to_arrays([there, there])
one[0] = 5
print(one, two, back[0])
print(catch(call, "tvmbuild_cuda.share", 1, cuda()))
print(catch(call, "tvmbuild_cuda.call_with_own_memory", 1))
"""
    told = run_child(program, shim_environment(log=str(log), devices=INTEGRATED)).splitlines()
    assert told == [
        "True False",
        "cuda:0 (4,) float32 True",
        "[9. 2. 3. 4.] True",
        "None None",
        "[5. 2. 3. 4.] [9. 2. 3. 4.] 5.0",
        "CUDA: share takes a tensor and a device",
        "CUDA: call_with_own_memory takes a function and its arguments",
    ]
    assert "to host 16" not in log.read_text()
