"""Drivers and cards that fail: a message in words, and the next call is right unless the driver ended the context."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run_child
from cuda_shim import DRIVER, shim_environment

pytestmark = pytest.mark.compiler

CARD = "NVIDIA H100 shim"
REASON = "from cuda_child import *\nprint(catch(describe_devices))"
FIND = """
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.host import find_device
try: print(find_device("cuda"))
except TvmbuildError as error: print(error.message)
"""
TWICE = """
import ctypes
from cuda_child import *
show = load_module(write_blob(Kernel()))["show2"]
def infer():
    a = upload(np.full(200_000, 7, np.uint8))
    show(ctypes.c_void_p(a.data_ptr()), 5, 4, 64)
    return int(download(a).sum())
print(catch(infer))
print(catch(infer))
print(infer())
"""
LOST = "; the process must start again"


def test_a_driver_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / DRIVER).touch()
    told = run_child(REASON, {**shim_environment(), "LD_LIBRARY_PATH": str(tmp_path)})
    assert told.startswith(f"CUDA: the driver is not installed ({tmp_path / DRIVER}: file too short")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"driver": "11030"}, "the driver is of CUDA 11.3, and 11.4 is needed"),
        ({"fail": "cuInit:999"}, "the driver does not start: code 999"),
        ({"fail": "cuInit:999@1"}, "the driver does not start: code 999"),
        ({"devices": "none"}, "the driver shows no device"),
    ],
)
def test_a_machine_without_devices(options: dict[str, str], reason: str) -> None:
    """The driver is asked once: every later call has the first reason."""
    environment = shim_environment(**options)
    assert run_child(f"{REASON}\nprint(catch(describe_devices))", environment).splitlines() == [f"CUDA: {reason}"] * 2
    missing = "the package needs a cuda device, and this machine has none that answers"
    assert run_child(FIND, environment) == f"{missing}: {reason}"


def test_unknown_words_of_settings_are_refused() -> None:
    environment = {**shim_environment(), "TVMBUILD_CUDA_WITHOUT": "unified_memory,graphs"}
    assert run_child(FIND, environment).endswith(
        ": TVMBUILD_CUDA_WITHOUT does not know graphs; allowed: unified_memory"
    )
    assert run_child(FIND, {**shim_environment(), "TVMBUILD_CUDA": "ours"}) == "TVMBUILD_CUDA=ours chooses no runtime"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("fail", "message"),
    [
        ("cuDevicePrimaryCtxRetain:2@1", "could not be started: out of memory"),
        ("cuMemcpyHtoDAsync_v2:1@1", "could not copy to its memory: code 1"),
        ("cuMemcpyDtoHAsync_v2:2@1", "could not copy from its memory: out of memory"),
        ("cuModuleLoadDataEx:2@1", "could not load the kernels: out of memory"),
        ("cuModuleGetFunction:500@1", "could not load kernel show2: code 500"),
        ("cuFuncLoad:2@1", "could not load kernel show2: out of memory"),
        ("cuLaunchKernel:701@1", "could not launch kernel show2: code 701"),
        ("cuMemAlloc_v2:2@1", "out of memory on NVIDIA H100 shim: asked for 1 MiB, 256 MiB are free of 256 MiB"),
    ],
)
def test_a_call_that_fails_once(fail: str, message: str) -> None:
    first, second, third = run_child(TWICE, shim_environment(fail=fail)).splitlines()
    assert first.startswith("CUDA: ")
    assert message in first
    assert (second, third) == ("no error", str(7 * 200_000))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (2, f"{CARD} could not tell its free memory: out of memory"),
        (700, f"{CARD} was lost when it should tell its free memory: an illegal memory access was encountered{LOST}"),
    ],
)
def test_a_test_of_the_device_that_fails_gives_the_drivers_error(code: int, message: str) -> None:
    told = run_child(FIND, shim_environment(fail=f"cuMemGetInfo_v2:{code}@1"))
    assert told == f"the CUDA device 0 cannot be used: CUDA: {message}"


@pytest.mark.parametrize(
    ("code", "said"),
    [(700, "an illegal memory access was encountered"), (719, "unspecified launch failure"), (710, "code 710")],
)
def test_an_error_that_ends_the_context_is_told_in_every_later_call(code: int, said: str) -> None:
    program = TWICE.replace("print(infer())", "print(catch(empty, 8))")
    told = run_child(program, shim_environment(fail=f"cuStreamSynchronize:{code}@2")).splitlines()
    assert told == [
        f"CUDA: {CARD} was lost when it should finish its work: {said}{LOST}",
        *[f"CUDA: {CARD} was lost earlier: {said}{LOST}"] * 2,
    ]


def test_memory_that_is_full_and_free_again() -> None:
    program = """
from cuda_child import *
kept = empty(200 << 20)
print(catch(empty, 100 << 20))
del kept
print(catch(empty, 100 << 20))
"""
    told = run_child(program, shim_environment()).splitlines()
    assert told == [f"CUDA: out of memory on {CARD}: asked for 100 MiB, 56 MiB are free of 256 MiB", "no error"]


def test_the_hint_names_what_helps() -> None:
    program = """
from tvmbuild.package.runtime.device_errors import EXPLAINED_ERRORS
from tvmbuild.errors import TvmbuildError
from cuda_child import *
try:
    with EXPLAINED_ERRORS: empty(1 << 40)
except TvmbuildError as error: print(error.message, "|", error.hint)
"""
    message, hint = run_child(program, shim_environment()).split(" | ")
    assert message.startswith(f"CUDA: out of memory on {CARD}")
    assert "smaller batch" in hint


def test_a_device_that_is_not_there() -> None:
    program = "from cuda_child import *\nprint(catch(empty, 8, cuda(3)))"
    told = run_child(program, shim_environment(devices="A:90,B:87"))
    assert told == "CUDA: there is no device 3; the driver shows 2"


def test_a_driver_of_11_4_runs_kernels_without_the_newer_launch(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = """
import ctypes
from cuda_child import *
module = load_module(write_blob(Kernel("show1", (POINTER,), ("blockIdx.x", DEPENDENT)),
                                Kernel("show0", (), ("blockIdx.x", COOPERATIVE))))
module["show1"](ctypes.c_void_p(0x40), 4)
module["show0"](2)
print(describe_devices()["driver"])
"""
    assert run_child(program, shim_environment(is_old=True, log=str(log))) == "11.4"
    launches = [line for line in log.read_text().splitlines() if line.startswith("launch")]
    assert launches == [
        "launch show1 grid=4,1,1 block=1,1,1 shared=0 40",
        "launch show0 grid=2,1,1 block=1,1,1 shared=0 cooperative",
    ]


@pytest.mark.parametrize(
    ("driver", "code", "message"),
    [
        (
            "12020",
            "is_new=True",
            "the driver of CUDA 12.2 cannot load this package's kernels (cubin): its compiler was ne",
        ),
        ("13000", "arch=80", f"the kernels are not for {CARD}, which is sm_90"),
        ("13000", "arch=100, is_new=True", f"the kernels are not for {CARD}, which is sm_90"),
    ],
)
def test_code_that_the_driver_or_the_card_refuses(driver: str, code: str, message: str) -> None:
    program = f"""
from cuda_child import *
print(catch(load_module(write_blob(Kernel("show0", ()), code=make_cubin({code})))["show0"], 1, 1))
"""
    assert run_child(program, shim_environment(driver=driver)).startswith(f"CUDA: {message}")


def test_two_devices_have_memory_and_kernels_of_their_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = """
from cuda_child import *
show = load_module(write_blob(Kernel("show0", ())))["show0"]
first = upload(np.arange(100_000, dtype=np.uint8), cuda(0))
second = empty(100_000, cuda(1))
call("runtime.TVMTensorCopyFromTo", first, second)
print(np.array_equal(download(second), np.arange(100_000, dtype=np.uint8)), second.device)
for device in (0, 1):
    call("__tvm_set_device", 2, device)
    show(3, 32)
print([(each["name"], each["arch"], each["integrated"]) for each in describe_devices()["devices"]])
"""
    told = run_child(program, shim_environment(devices="H100:90,Orin:90:integrated", log=str(log))).splitlines()
    assert told == ["True cuda:1", "[('H100', 'sm_90', False), ('Orin', 'sm_90', True)]"]
    lines = log.read_text().splitlines()
    assert [line for line in lines if line.startswith("load")] == [f"load sm_90 on device {index}" for index in (0, 1)]
    assert not [line for line in lines if line.startswith("mistake")]


def test_the_context_that_was_current_is_current_afterwards() -> None:
    """PyTorch finds its own card by the current context; a thread without one keeps that of card 0, CUDA's default."""
    program = """
import ctypes
from cuda_child import *
driver = ctypes.CDLL("libcuda.so.1")
contexts = [ctypes.c_void_p() for _ in range(2)]
for index, context in enumerate(contexts):
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), index)

def tell(use):
    def read():
        current = ctypes.c_void_p()
        driver.cuCtxGetCurrent(ctypes.byref(current))
        return "no card" if not current else [each.value for each in contexts].index(current.value)
    seen = []
    for before in (None, *contexts):
        driver.cuCtxSetCurrent(before)
        use()
        seen.append(read())
    return seen

show = load_module(write_blob(Kernel("show0", ())))["show0"]
ones = np.ones(4, np.float32)
first, second = upload(ones, cuda(0)), upload(ones, cuda(1))
print(tell(lambda: empty(4, cuda(0))), tell(lambda: empty(4, cuda(1))), tell(lambda: catch(empty, 1 << 50, cuda(1))))
print(tell(lambda: download(first)), tell(lambda: download(second)), tell(lambda: show(1, 1)))
print(tell(lambda: call("runtime.TVMTensorCopyFromTo", first, second)))
"""
    told = run_child(program, shim_environment(devices="H100:90,H100:90")).splitlines()
    restored = "['no card', 0, 1]"
    assert told == [f"[0, 0, 1] {restored} {restored}", f"[0, 0, 1] {restored} [0, 0, 1]", "[0, 0, 1]"]
