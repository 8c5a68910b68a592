"""Damaged packages, pictures and arguments: messages and exit codes of the C++ programs, never an abort or a leak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cpp_programs import build_by_cmake, run_program
from damaged_packages import write_damaged
from PIL import Image
from small_package import build_package, change_package

from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    built = build_package(digits, folder)
    return change_package(built, folder / "m.tar", preprocess=Preprocess(color="gray"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs with the compiler's checks of memory and of undefined behaviour; leaks are errors at their end."""
    return (
        build_by_cmake(tmp_path_factory.mktemp("checked"), "-DTVMBUILD_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=Debug") / "bin"
    )


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 48, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "p.ppm")
    return tmp_path / "p.ppm"


def test_python_refuses_them_all(package: Path, tmp_path: Path) -> None:
    refused = 0
    for name, path in write_damaged(package, tmp_path):
        with pytest.raises(TvmbuildError) as caught:
            Session(path)
        assert len(caught.value.message) > 20, name
        refused += 1
    assert refused >= 20


@pytest.mark.nightly
@pytest.mark.toolchain
def test_cpp_refuses_them_all(package: Path, programs: Path, picture: Path, tmp_path: Path) -> None:
    messages = set()
    for name, path in write_damaged(package, tmp_path):
        done = run_program(programs / "run_model", path, picture)
        assert (done.returncode, done.stdout) == (1, ""), name
        assert done.stderr.startswith("error: "), name
        assert done.stderr.count("\n") == 1, name
        messages.add(done.stderr)
    assert len(messages) >= 15


@pytest.mark.nightly
@pytest.mark.toolchain
def test_a_sound_package_runs_without_a_finding_however_often(package: Path, programs: Path, picture: Path) -> None:
    assert run_program(programs / "run_model", package, picture).returncode == 0
    done = run_program(programs / "bench_model", package, package, "--repeat", 1000)
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
@pytest.mark.toolchain
def test_pictures_that_are_none(package: Path, programs: Path, tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8)).save(tmp_path / "good.png")
    Image.open(tmp_path / "good.png").save(tmp_path / "good.jpg")
    png, jpeg = (tmp_path / "good.png").read_bytes(), (tmp_path / "good.jpg").read_bytes()
    for kind in ("bmp", "tga", "gif"):
        Image.open(tmp_path / "good.png").save(tmp_path / f"good.{kind}")
    bmp, tga, gif = ((tmp_path / f"good.{kind}").read_bytes() for kind in ("bmp", "tga", "gif"))
    cases = {
        "empty.png": (b"", "cannot be read"),
        "text.png": (b"text" * 10, "text.png is n"),  # the words depend on whether stb_image was found
        "half.bmp": (bmp[: len(bmp) // 2], ""),
        "short.bmp": (bmp[:-3], ""),
        "half.tga": (tga[: len(tga) // 2], ""),
        "half.gif": (gif[: len(gif) // 2], ""),
        "huge.bmp": (bmp[:18] + b"\xff\xff\xff\x00" * 2 + bmp[26:], ""),
        "half.png": (png[: len(png) // 2], ""),
        "flipped.png": (png[:200] + bytes([png[200] ^ 255]) + png[201:], ""),
        "header.jpg": (jpeg[:30], ""),
        "half.ppm": (b"P6 20 20 255\n" + bytes(100), "is cut short"),
        "deep.ppm": (b"P6 2 2 65535\n" + bytes(24), "has more or fewer than 8 bits"),
        "huge.ppm": (b"P6 99999999 99999999 255\n", "is empty or too large"),
        "flat.ppm": (b"P6 0 5 255\n", "is empty or too large"),
        "words.ppm": (b"P6 two two 255\n" + bytes(12), "no PPM header"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        done = run_program(programs / "run_model", package, tmp_path / name)
        assert done.returncode == 1, name
        assert done.stderr.startswith("error: "), name
        assert message in done.stderr


@pytest.mark.nightly
@pytest.mark.toolchain
def test_arguments_that_make_no_sense(package: Path, programs: Path, picture: Path) -> None:
    for program, arguments in (
        ("run_model", []),
        ("run_model", [package]),
        ("run_model", [package, picture, "labels", "more"]),
        ("run_model", [package, picture, "--top", "0"]),
        ("run_model", [package, picture, "--color", "bgr"]),
        ("run_model", [package, picture, "--threads"]),
        ("bench_model", []),
        ("bench_model", [package, "--repeat", "x"]),
        ("bench_model", [package, package, package]),
    ):
        done = run_program(programs / program, *arguments)
        assert done.returncode == 2
        assert f"usage: {program} PACKAGE.tar" in done.stderr
    for arguments, message in (
        ([package, picture, "--normalize", "better"], "--normalize is imagenet, none or MEANS:DEVIATIONS"),
        ([package, picture, "--normalize", "1:0"], "std has a zero"),
        ([package, picture, "--normalize", "1,2:1,2"], "mean and std need one number a channel"),
        ([package, picture, "--normalize", "a:b"], "a is not a number"),
        ([package, picture, "no-labels.txt"], "no-labels.txt cannot be read"),
        ([package, picture, "--threads", "1000"], "1000 threads were asked for"),
    ):
        done = run_program(programs / "run_model", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr
    assert run_program(programs / "run_model", "--help").stdout.startswith("usage: run_model")
