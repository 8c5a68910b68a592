"""A lost device: one message, at every later call too; the process, other devices and the next process continue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from children import run_child
from small_package import ANY_X86, build_package
from vulkan_shim import shim_environment

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = pytest.mark.vulkan

DEVICES = "Arc:integrated"
LOST = "Vulkan: Arc was lost (a driver's reset, a kernel that ran too long, or a fault): restart this process"
HINT = "the system's log (`dmesg`) says why; update the driver if it happens again"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    attributes = FrozenMap(sorted(FAMILIES["intel-iris-xe"].items()))
    return build_package(digits, tmp_path_factory.mktemp("vulkan"), attributes, "vulkan", ANY_X86)


@pytest.mark.parametrize("kind", ["integrated", "discrete"])
@pytest.mark.parametrize(
    "fail",
    ["vkQueueSubmit:-4@1", "vkQueueSubmit:-4@5", "vkGetFenceStatus:-4@7", "vkGetFenceStatus:1,vkWaitForFences:-4@3"],
)
def test_every_call_says_so(fail: str, kind: str) -> None:
    code = """
from vulkan_child import *
compute, ones, total = ScaleAndAdd(), upload(np.ones(64, "float32")), upload(np.zeros(64, "float32"))
def infer():
    for _ in range(100):
        compute(total, ones, total)
        download(total)
print(catch(infer))
later = [
    infer, synchronize, lambda: download(ones), lambda: upload(np.ones(64, "float32"), ones), lambda: empty(1 << 20),
    lambda: compute(ones, ones, total), lambda: ScaleAndAdd()(ones, ones, total),
    lambda: call("runtime.TVMTensorCopyFromTo", ones, total), lambda: call("tvmbuild_vulkan.profile_start"),
    lambda: call("tvmbuild_vulkan.profile_stop"),
]
print(*(catch(each) for each in later), sep="\\n")
del compute, ones, total
gc.collect()
"""
    told = run_child(code, shim_environment(devices=f"Arc:{kind}", fail=fail)).splitlines()
    assert told == [LOST] * 11


def test_what_waits_for_a_lost_device_may_go_before_its_thread_does() -> None:
    code = """
from vulkan_child import *
compute, mine, other = ScaleAndAdd(), [empty(64) for _ in range(3)], [empty(64) for _ in range(3)]
launched, freed = Event(), Event()
def work():
    compute(*other)
    launched.set()
    freed.wait()
thread = Thread(target=work)
thread.start()
launched.wait()
compute(*mine)
print(catch(synchronize))
del compute, mine, other
gc.collect()
freed.set()
thread.join()
"""
    lost = shim_environment(devices=DEVICES, fail="vkQueueSubmit:-4@1")
    assert run_child(code, {**lost, "MALLOC_PERTURB_": "165"}) == LOST  # freed memory reads as an impossible value


def test_another_device_computes_on() -> None:
    code = """
from vulkan_child import *
compute, tensors = ScaleAndAdd(), [upload(np.ones(64, "float32"), device=index) for index in (0, 1)]
def infer(index):
    launch_on(index)
    compute(tensors[index], tensors[index], tensors[index])
    return download(tensors[index]).sum()
print(infer(1), catch(lambda: infer(0)), infer(1), sep="\\n")
print(catch(lambda: call("runtime.TVMTensorCopyFromTo", tensors[0], tensors[1])))
print(catch(lambda: call("runtime.TVMTensorCopyFromTo", tensors[1], tensors[0])))
print(infer(1))
"""
    both = shim_environment(devices="Arc:integrated,Iris Xe:integrated", fail="vkQueueSubmit:-4@1#0")
    assert run_child(code, both).splitlines() == ["128.0", LOST, "256.0", LOST, LOST, "512.0"]


def test_a_session_says_so_with_the_remedy(package: Path) -> None:
    code = f"""
import numpy as np, tvmbuild
from tvmbuild.errors import TvmbuildError
session = tvmbuild.load({str(package)!r})
inputs = {{each.name: np.ones(each.shape, each.dtype) for each in session.inputs}}
bound = session.bind(inputs)
session.run(inputs)
for attempt in (session.run, session.run, session.bind, lambda _: bound(), lambda _: session.wait(),
                lambda _: session.benchmark(inputs), lambda _: tvmbuild.load({str(package)!r})):
    try: attempt(inputs)
    except TvmbuildError as error: print(error.message, error.hint, sep="; ")
session.close()
"""
    told = run_child(code, shim_environment(devices=DEVICES, fail="vkQueueSubmit:-4@2")).splitlines()
    assert told == [f"{LOST}; {HINT}"] * 7


def test_the_command_says_so_and_the_next_one_runs(package: Path) -> None:
    command = [sys.executable, "-m", "tvmbuild", "run", str(package), "--fill", "ones"]
    for fail, code, errors in (("vkQueueSubmit:-4@1", 1, f"error: {LOST}\n  hint: {HINT}.\n"), ("", 0, "")):
        environment = shim_environment(devices=DEVICES, fail=fail)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, errors)
