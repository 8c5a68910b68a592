"""Each installed compiler builds the library and both programs, for this machine and for aarch64."""

from __future__ import annotations

import os
import platform
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from cpp_programs import (
    PROGRAMS,
    build_by_cmake,
    build_by_zig,
    expect_pythons_ranking,
    read_flags,
    run_program,
)
from PIL import Image
from small_package import ANY_X86, build_package, change_package

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.preprocess_specs import Preprocess

pytestmark = [pytest.mark.nightly, pytest.mark.compiler]
AARCH64 = "aarch64-linux-gnu.2.28"
_ELF_AARCH64 = 183


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    built = build_package(digits, folder)
    return change_package(built, folder / "m.tar", preprocess=Preprocess(color="gray"))


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.fromarray(np.random.default_rng(2).integers(0, 256, (40, 30, 3), np.uint8)).save(tmp_path / "p.ppm")
    return tmp_path / "p.ppm"


def link_aarch64(libraries: str) -> list[str]:
    paths = [f"{libraries}/lib{name}.so" for name in ("tvm_runtime", "tvm_ffi")]
    return ["-Wl,--no-as-needed", *paths, f"-Wl,-rpath,{libraries}", "-lpthread", "-ldl"]


@pytest.mark.parametrize(
    "compiler",
    [pytest.param("g++", marks=pytest.mark.toolchain), pytest.param("clang++", marks=pytest.mark.toolchain), "zig"],
)
def test_both_programs(
    package: Path, picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], compiler: str
) -> None:
    if compiler == "zig":
        folder = build_by_zig(tmp_path, read_flags(capsys))
    elif shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    else:
        folder = build_by_cmake(tmp_path, f"-DCMAKE_CXX_COMPILER={compiler}") / "bin"
    done = run_program(folder / "run_model", package, picture)
    assert done.returncode == 0, done.stderr
    expect_pythons_ranking(done.stdout, package, picture)
    done = run_program(folder / "bench_model", package, "--repeat", 3)
    assert (done.returncode, "(3 samples of 1)" in done.stdout) == (0, True), done.stderr
    done = run_program(folder / "run_model", tmp_path / "absent.tar", picture)
    assert done.stderr == f"error: {tmp_path / 'absent.tar'} cannot be read: No such file or directory\n"


def test_zig_compiles_for_aarch64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_flags, _ = read_flags(capsys)
    libraries = os.environ.get("TVMBUILD_TEST_AARCH64")
    if libraries is None:
        folder = build_by_zig(tmp_path, (compile_flags, None), AARCH64)
        made = [folder / "tvmbuild.o", *(folder / f"{name}.o" for name in PROGRAMS)]
    else:
        folder = build_by_zig(tmp_path, (compile_flags, link_aarch64(libraries)), AARCH64)
        made = [folder / name for name in PROGRAMS]
    for path in made:
        assert struct.unpack_from("<H", path.read_bytes(), 18) == (_ELF_AARCH64,), path


def test_the_programs_run_on_aarch64(project_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Needs the libraries of the aarch64 wheels, and an emulator with a root of arm64 libraries elsewhere."""
    libraries = os.environ.get("TVMBUILD_TEST_AARCH64")
    emulator = next(filter(None, map(shutil.which, ("qemu-aarch64", "qemu-aarch64-static"))), None)
    if libraries is None:
        pytest.skip("TVMBUILD_TEST_AARCH64 does not name a folder with the libraries of TVM's aarch64 wheels")
    if emulator is None and platform.machine() != "aarch64":
        pytest.skip("qemu-aarch64 is not installed")
    model = project_root / "models" / "mobilenet_v2.onnx"
    attributes: Attributes = FrozenMap(
        {"mcpu": "cortex-a72", "mattr": ("+neon",), "mtriple": "aarch64-linux-gnu", "num-cores": 2}
    )
    rules = Preprocess(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    packages = []
    for name, target in (("here", ANY_X86), ("pi4", attributes)):
        (tmp_path / name).mkdir()
        built = build_package(model, tmp_path / name, target)
        packages.append(change_package(built, tmp_path / f"{name}.tar", preprocess=rules))
    compile_flags, _ = read_flags(capsys)
    folder = build_by_zig(tmp_path, (compile_flags, link_aarch64(libraries)), AARCH64)
    Image.open(project_root / "examples" / "classify" / "chelsea.png").convert("RGB").save(tmp_path / "cat.ppm")
    program, *rest = [*([emulator] if emulator else []), str(folder / "run_model")]
    done = run_program(program, *rest, packages[1], tmp_path / "cat.ppm", "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert "net for here, 0 of " in done.stdout
    expect_pythons_ranking(done.stdout, packages[0], tmp_path / "cat.ppm")
