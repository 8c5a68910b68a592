"""Packages on a GPU with full memory: one message with the remedy, and the session continues."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from children import run_child
from onnx import TensorProto, helper
from small_package import ANY_X86, build_package
from vulkan_shim import shim_environment

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = pytest.mark.vulkan

SHARED_BLOCK = 4 << 20
"""The size of the block for all small tensors."""
TENSOR = 1 << 20
OUTPUT = f"asked for 1 MiB, 0 MiB are free of {(SHARED_BLOCK + TENSOR) >> 20} MiB"
HINT = "end what else uses the device's memory, or take a smaller batch or `precision: fp16`"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose input and output have 1 MiB each."""
    shape = [1, 1, 512, 512]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], perm=[0, 1, 3, 2])], "g", [x], [y])
    folder = tmp_path_factory.mktemp("large")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "large.onnx")
    attributes = FrozenMap(sorted(FAMILIES["intel-iris-xe"].items()))
    return build_package(folder / "large.onnx", folder, attributes, "vulkan", ANY_X86)


def card(heap: int) -> dict[str, str]:
    return shim_environment(devices="RTX 4090:discrete", set=f"heap={heap}")


@pytest.mark.parametrize(("tensors", "code"), [(1, 1), (3, 0)])  # the command keeps the input twice
def test_the_command_says_so(package: Path, tensors: int, code: int) -> None:
    heap = SHARED_BLOCK + tensors * TENSOR
    command = [sys.executable, "-m", "tvmbuild", "run", str(package), "--fill", "ones"]
    done = subprocess.run(command, env=card(heap), capture_output=True, text=True, check=False)
    told = f"error: Vulkan: out of memory on RTX 4090: {OUTPUT}\n  hint: {HINT}.\n" if code else ""
    assert (done.returncode, done.stderr) == (code, told)


def test_the_session_goes_on_where_there_is_room_again(package: Path) -> None:
    code = f"""
from vulkan_child import *
import tvmbuild
from tvmbuild.errors import TvmbuildError
session = tvmbuild.load({str(package)!r})
inputs = {{"x": np.arange(1 << 18, dtype="float32").reshape(1, 1, 512, 512)}}
other = empty(2 << 18)
for attempt in range(2):
    try: session.run(inputs)
    except TvmbuildError as error: print(error.message, error.hint, sep="\\n")
del other
gc.collect()
for attempt in range(2):
    print(np.array_equal(session.run(inputs)["y"], inputs["x"].swapaxes(2, 3)))
"""
    told = run_child(code, card(SHARED_BLOCK + 3 * TENSOR)).splitlines()
    message = "Vulkan: out of memory on RTX 4090: asked for 1 MiB, 0 MiB are free of 7 MiB"
    assert told == [message, HINT] * 2 + ["True"] * 2


def test_a_session_finds_the_room_of_the_one_before(package: Path) -> None:
    code = f"""
from vulkan_child import *
import tvmbuild
inputs = {{"x": np.arange(1 << 18, dtype="float32").reshape(1, 1, 512, 512)}}
for attempt in range(4):
    with tvmbuild.load({str(package)!r}) as session:
        print(np.array_equal(session.run(inputs)["y"], inputs["x"].swapaxes(2, 3)))
    del session
    gc.collect()
"""
    assert run_child(code, card(SHARED_BLOCK + 2 * TENSOR)).split() == ["True"] * 4
