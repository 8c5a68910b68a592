from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.base.zig import DEFAULT_GLIBC
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.elf import read_elf
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.codegen.link import LinkOptions, export_library, link_objects
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.errors import TvmbuildError

SaveModel = Callable[..., Path]

# zig builds the C library of each machine and glibc once, in 11 s of CPU, so the quick tests link for few.
LINK = """
import sys
from pathlib import Path
from tvmbuild.compiler.codegen.link import LinkOptions, link_objects
link_objects([Path(sys.argv[1])], Path(sys.argv[1]).parent / "out.so", LinkOptions())
"""


def build(path: Path, target: tvm.target.Target) -> relax.VMExecutable:
    applied = apply_records(lower(import_onnx(path), target), target, ms.database.MemoryDatabase())
    return build_executable(applied.mod, target)


def write(library: bytes, folder: Path) -> Path:
    path = folder / "mod.so"
    path.write_bytes(library)
    return path


@pytest.fixture
def relu(save_model: SaveModel) -> Path:
    return save_model([helper.make_node("Relu", ["x"], ["y"])])


@pytest.fixture
def power(save_model: SaveModel) -> Path:
    """Save a model that needs pow of libm; powers of float32 are polynomials."""
    return save_model(
        [
            helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
            helper.make_node("Pow", ["wide", "wide"], ["power"]),
            helper.make_node("Cast", ["power"], ["y"], to=TensorProto.FLOAT),
        ]
    )


@pytest.fixture
def no_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_compilers")
def test_no_compiler_is_needed(relu: Path, cpu: tvm.target.Target, tmp_path: Path) -> None:
    path = write(export_library(build(relu, cpu), cpu, LinkOptions()), tmp_path)
    elf = read_elf(path)
    assert elf.machine == "x86_64"
    assert elf.glibc == (0,)
    ctypes.CDLL(str(path))


@pytest.mark.compiler
@pytest.mark.usefixtures("no_compilers")
@pytest.mark.parametrize("name", ["cpu", pytest.param("pi4", marks=pytest.mark.nightly)])
def test_libm_is_linked_for_the_glibc_floor(
    power: Path, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    target = request.getfixturevalue(name)
    executable = build(power, target)
    new = read_elf(write(export_library(executable, target, LinkOptions(glibc="2.34")), tmp_path))
    old = read_elf(write(export_library(executable, target, LinkOptions(glibc=DEFAULT_GLIBC)), tmp_path))
    assert new.machine == old.machine == {"cpu": "x86_64", "pi4": "aarch64"}[name]
    assert (2, 0) < old.glibc <= (2, 28) < new.glibc <= (2, 34)  # pow is another since 2.29


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["cpu", "pi4"])
def test_the_same_bytes_from_other_folders(
    power: Path, name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, libraries = request.getfixturevalue(name), []
    executable = build(power, target)
    for folder in ("a", "a-much-longer-name"):
        (tmp_path / folder).mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / folder))
        libraries.append(export_library(executable, target, LinkOptions()))
    assert libraries[0] == libraries[1]
    assert str(tmp_path).encode() not in libraries[0]


def test_a_compiler_that_is_not_there(relu: Path, cpu: tvm.target.Target) -> None:
    with pytest.raises(TvmbuildError) as caught:
        export_library(build(relu, cpu), cpu, LinkOptions(command="aarch64-nonesuch-gcc"))
    assert caught.value.message == "the linker 'aarch64-nonesuch-gcc' is not on PATH"
    assert caught.value.hint == "install it, or set link: auto for the bundled ziglang"


def test_a_compiler_for_another_machine(relu: Path, pi4: tvm.target.Target, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong-cc"
    wrong.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncp {sys.executable} "$2"\n')
    wrong.chmod(0o755)
    with pytest.raises(TvmbuildError, match=r"the linker made a library for x86_64, not aarch64"):
        export_library(build(relu, pi4), pi4, LinkOptions(command=str(wrong)))


def test_a_cross_compiler_by_name(
    relu: Path, pi4: tvm.target.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aarch64-linux-gnu-g++ is a real one; here the name leads to zig."""
    cross = tmp_path / "aarch64-test-linux-gnu-g++"
    cross.write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang cc -target aarch64-linux-gnu.{DEFAULT_GLIBC} "$@"\n')
    cross.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    elf = read_elf(write(export_library(build(relu, pi4), pi4, LinkOptions(cross.name, DEFAULT_GLIBC)), tmp_path))
    assert elf.machine == "aarch64"
    assert elf.glibc <= (2, 28)


CROSS: dict[str, Attributes] = {
    "arm": FrozenMap({"mattr": ("+neon", "+vfp4"), "mcpu": "cortex-a7", "mtriple": "armv7l-linux-gnueabihf"}),
    "riscv64": FrozenMap(
        {
            "mabi": "lp64d",
            "mattr": ("+m", "+a", "+f", "+d", "+c"),
            "mcpu": "generic-rv64",
            "mtriple": "riscv64-linux-gnu",
        }
    ),
}


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.usefixtures("no_compilers")
@pytest.mark.parametrize("machine", CROSS)
def test_machines_that_are_only_built_for(power: Path, machine: str, tmp_path: Path) -> None:
    target = tvm_target("llvm", CROSS[machine], FrozenMap())
    elf = read_elf(write(export_library(build(power, target), target, LinkOptions(glibc="2.28")), tmp_path))
    assert elf.machine == machine
    assert (2, 0) < elf.glibc <= (2, 28)


def test_riscv_code_that_calls_as_no_distribution_does(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("float f(float x) { return x; }")
    command = [sys.executable, "-m", "ziglang", "clang", "--target=riscv64-linux-gnu", "-march=rv64imac", "-mabi=lp64"]
    subprocess.run([*command, "-c", "a.c", "-o", "lib0.o"], cwd=tmp_path, check=True)
    with pytest.raises(TvmbuildError) as caught:
        link_objects([tmp_path / "lib0.o"], tmp_path / "mod.so", LinkOptions())
    assert caught.value.message == "the target's functions are called as lp64, those of Linux distributions as lp64d"
    assert caught.value.hint == "write `mattr: [+m, +a, +f, +d, +c]` and `mabi: lp64d` in targets.yaml"


def test_code_for_a_machine_that_nothing_is_built_for(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int f(void) { return 1; }")
    command = [sys.executable, "-m", "ziglang", "clang", "--target=i386-linux-gnu", "-c", "a.c", "-o", "lib0.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with pytest.raises(TvmbuildError, match=r"^code for machine 3 of 32 bits cannot be linked"):
        link_objects([tmp_path / "lib0.o"], tmp_path / "mod.so", LinkOptions())


@pytest.mark.nightly
@pytest.mark.compiler
def test_the_first_use_of_a_target_is_said_once(
    power: Path, pi4: tvm.target.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = build(power, pi4)
    cache, said = tmp_path / "cache", list[str]()
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(cache))
    with progress_shown_by(said.append):
        first = export_library(executable, pi4, LinkOptions(glibc="2.31"))
        again = export_library(executable, pi4, LinkOptions(glibc="2.31"))
    assert first == again
    assert said == ["linking; zig builds the C library of aarch64-linux-gnu.2.31 first, once: about half a minute"]
    assert {path.name for path in cache.iterdir()} >= {"o", "z"}


def test_a_glibc_that_is_too_new(relu: Path, cpu: tvm.target.Target, tmp_path: Path) -> None:
    library = next(Path(tvm.__file__).parent.glob("lib/libtvm_runtime.so"))
    needed = ".".join(str(part) for part in read_elf(library).glibc)
    new = tmp_path / "new-cc"
    new.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncp {library} "$2"\n')
    new.chmod(0o755)
    with pytest.raises(TvmbuildError) as caught:
        export_library(build(relu, cpu), cpu, LinkOptions(command=str(new), glibc="2.2"))
    assert caught.value.message == f"the library needs glibc {needed}, newer than the target's floor 2.2"


def test_the_linkers_own_words_are_shown(tmp_path: Path) -> None:
    broken = tmp_path / "lib0.o"
    broken.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\x00" + bytes(60))
    done = subprocess.run(
        [sys.executable, "-c", LINK, str(broken)], env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert "linking failed: " in done.stderr
    assert "lib0.o" in done.stderr
