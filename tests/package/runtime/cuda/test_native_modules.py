"""Modules of kernels: what is passed to a launch, and bytes that are refused with a message."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from children import run_child
from cuda_blob import DEPENDENT, FLOAT32, FLOAT64, INT32, POINTER, SHARED, Kernel, make_cubin, write_blob
from cuda_package import build_package_of_long_names
from cuda_shim import shim_environment

pytestmark = pytest.mark.compiler

ALL = ("blockIdx.z", "threadIdx.y", "blockIdx.x", "threadIdx.x", "blockIdx.y", "threadIdx.z", DEPENDENT, SHARED)


def test_arguments_and_extents_arrive(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = f"""
import ctypes
from cuda_child import *
show = load_module(write_blob(Kernel("show5", (POINTER, INT32, FLOAT32, FLOAT64, INT64), {ALL!r})))["show5"]
show(ctypes.c_void_p(0x1234), -1, 0.5, 2, 1 << 40, 3, 4, 5, 6, 7, 8, 60000)
show(None, 7, 1, 0.25, -2, 1, 1, 1, 1, 1, 1, 60000)
show(None, 7, 1, 0.25, -2, 0, 1, 1, 1, 1, 1, 0)
print(catch(show, 1), catch(show, "x", 7, 1, 0.25, -2, 1, 1, 1, 1, 1, 1, 0), sep="\\n")
print(catch(show, None, 7, "x", 0.25, -2, 1, 1, 1, 1, 1, 1, 0), catch(show, None, 7, 1, 0.25, -2, *[-1] * 7), sep="\\n")
print(catch(show, None, 7, 1, 0.25, -2, 1, 1, 1, 1, 1, 1, 1 << 20))
"""
    told = run_child(program, shim_environment(log=str(log))).splitlines()
    assert told == [
        "CUDA: kernel show5 takes 12 arguments, not 1",
        "CUDA: argument 0 of kernel show5 is of another type",
        "CUDA: argument 2 of kernel show5 is of another type",
        "CUDA: kernel show5 is launched with an extent of -1",
        "CUDA: kernel show5 needs 1048576 bytes of shared memory, and NVIDIA H100 shim has fewer: code 1",
    ]
    lines = [line for line in log.read_text().splitlines() if line.startswith(("launch", "allow", "mistake"))]
    half, two, quarter = "3f000000", "4000000000000000", "3fd0000000000000"
    assert lines[:3] == [
        "allow 60000 bytes for show5",
        f"launch show5 grid=5,7,3 block=6,4,8 shared=60000 dependent 1234 ffffffffffffffff {half} {two} 10000000000",
        f"launch show5 grid=1,1,1 block=1,1,1 shared=60000 dependent 0 7 3f800000 {quarter} fffffffffffffffe",
    ]
    assert lines[3:] == ["allow 1048576 bytes for show5"]  # without groups nothing is launched


def test_a_released_module_is_unloaded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = """
from cuda_child import *
module = load_module(write_blob(Kernel("show0", ())))
show = module["show0"]
del module
show(1, 1)
del show
print(load_module(write_blob(Kernel("show0", ()))).kind)
"""
    assert run_child(program, shim_environment(log=str(log))) == "cuda"
    lines = log.read_text().splitlines()
    assert lines[:3] == ["load sm_90 on device 0", "launch show0 grid=1,1,1 block=1,1,1 shared=0", "unload"]
    assert lines[-1].startswith("end ")
    assert "modules=0" in lines[-1]


def test_a_kernel_of_many_operators_has_a_short_name(tmp_path: Path) -> None:
    package, log = build_package_of_long_names(tmp_path), tmp_path / "log"
    program = f"""
from tvmbuild.package.runtime.session import Session
session = Session({str(package)!r})
session.run({{"x": session.empty("x")}})
"""
    run_child(program, shim_environment(log=str(log)))
    launched = {line.split()[1] for line in log.read_text().splitlines() if line.startswith("launch")}
    assert [len(name) > 200 for name in launched] == [True]


MARKED = make_cubin() + struct.pack("<Q", 1 << 40) + b"tvmbuild PTX 1\0\0"
BAD = [
    (b"", "it ends within a text"),
    (write_blob(Kernel())[:30], "it ends within a text"),
    (write_blob(Kernel(), after=b"x"), "bytes follow its code"),
    (write_blob(Kernel(), count=2), "it ends within a text"),
    (write_blob(Kernel(), count=1 << 60), "it has too many kernels"),
    (write_blob(Kernel(), Kernel()), "two kernels are called show2"),
    (write_blob(Kernel(name="")), "a kernel's name is empty or too long"),
    (write_blob(Kernel(name="x" * 256)), "a kernel's name is empty or too long"),
    (write_blob(Kernel(name="a b")), "a kernel's name has characters that no name has"),
    (write_blob(Kernel(arguments=(POINTER,) * 257)), "kernel show2 has 257 arguments, and this runtime takes 256"),
    (write_blob(Kernel(arguments=((2, 16),))), "argument 0 of kernel show2 is of a type that this runtime does not pa"),
    (write_blob(Kernel(lanes=4)), "argument 0 of kernel show2 is of a type that this runtime does not pass"),
    (write_blob(Kernel(tags=("clusterIdx.x",))), "kernel show2 is launched with clusterIdx.x, which this runtime does"),
    (write_blob(Kernel(tags=("blockIdx.x",) * 9)), "a kernel has too many extents"),
    (write_blob(Kernel(tags=("\n",))), "a kernel's launch has characters that no name has"),
    (write_blob(Kernel(), form="\n"), "its form has characters that no name has"),
    (write_blob(Kernel(extra=(0, 1))), "argument 1 of kernel show2 is passed in a way that this runtime does not know"),
    (write_blob(Kernel(), code=b"short"), "its machine code is none"),
    (write_blob(Kernel(), code=b"\0" * 64), "its machine code is none"),
    (write_blob(Kernel(), code=b"// no end", form="ptx"), "its PTX has no end"),
    (write_blob(Kernel(), code=MARKED[:64] + b"x" + struct.pack("<Q", 1) + MARKED[72:]), "its PTX has no end"),
    (write_blob(Kernel(), code=MARKED), "its PTX is longer than its code"),
    (write_blob(Kernel(), form="cuda"), "the package has its kernels as cuda, not as machine code; build it again wit"),
]


def test_damaged_bytes_are_refused_without_a_driver() -> None:
    program = f"from cuda_child import *\nfor blob in {[blob for blob, _ in BAD]!r}: print(catch(load_module, blob))"
    environment = {**shim_environment(), "LD_LIBRARY_PATH": ""}
    told = run_child(program, environment).splitlines()
    for line, (_, message) in zip(told, BAD, strict=True):
        assert line.startswith("CUDA: ")
        assert message in line


def test_any_cut_or_changed_byte_does_no_harm() -> None:
    good = write_blob(Kernel(arguments=(POINTER, INT32, FLOAT32, FLOAT64), tags=ALL, extra=(0,) * 4))
    program = f"""
import random
from cuda_child import *
draw, good = random.Random(20261128), {good!r}
for _ in range(200): catch(load_module, good[:draw.randrange(len(good))])
for _ in range(2000):
    changed = bytearray(good)
    changed[draw.randrange(len(good))] = draw.randrange(256)
    catch(load_module, bytes(changed))
print("whole")
"""
    assert run_child(program, shim_environment()) == "whole"


@pytest.mark.parametrize(
    ("devices", "driver", "done"),
    [
        ("A:80", "12020", ["load sm_80 on device 0"]),
        ("A:89", "12020", ["load sm_80 on device 0"]),
        ("H:90", "12020", ["compile ptx of sm_80 for sm_90", "load sm_80 on device 0"]),
        ("T:75", "12020", "the kernels are not for T, which is sm_75"),
        (
            "H:90",
            "12010",
            "the driver of CUDA 12.1 cannot load this package's kernels (cubin and ptx)",
        ),
    ],
)
def test_a_later_card_compiles_the_ptx_behind_the_code(
    tmp_path: Path, devices: str, driver: str, done: list[str] | str
) -> None:
    log = tmp_path / "log"
    program = """
from cuda_child import *
from tvmbuild.compiler.codegen.cubin import append_ptx
code = append_ptx(make_cubin(80), make_ptx(80, "8.2"))
print(catch(load_module(write_blob(Kernel("show0", ()), code=code))["show0"], 1, 1))
"""
    told = run_child(program, shim_environment(log=str(log), devices=devices, driver=driver)).splitlines()[-1]
    lines = log.read_text().splitlines() if log.exists() else []
    if isinstance(done, str):
        assert told.startswith(f"CUDA: {done}")
    else:
        assert told == "no error"
        assert [line for line in lines if line.startswith(("load", "compile"))] == done
