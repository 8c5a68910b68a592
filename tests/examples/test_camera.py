"""The camera example: a classifier in floats and in integers gives the same answers, in Python and in C++."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from cpp_programs import install_programs, read_ranking, run_program
from example_project import build_example, copy_example, run_in_example

from tvmbuild.base.host_cpu import cpu_flags

pytestmark = [
    pytest.mark.nights(2),
    pytest.mark.compiler,
    pytest.mark.nightly,
    pytest.mark.skipif(importlib.util.find_spec("nncf") is None, reason="NNCF is not installed"),
]
RUNS_HERE = pytest.mark.skipif(not {"avx512_vnni", "avx512vbmi"} <= cpu_flags(), reason="another processor")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    """A copy of the example, built for the board too."""
    copy = copy_example(project_root, tmp_path_factory.mktemp("camera"), "camera")
    build_example(copy, "compile:camera@pc", "compile:camera@pc-int8", "validate:camera@pi5-int8")
    return copy


def package(target: str) -> str:
    return f"build/cells/camera@{target}/camera-{target}.tar"


def test_the_board_s_package_agrees_with_the_float_model(folder: Path) -> None:
    (found,) = folder.glob("build/cells/camera@pi5-int8/validated.json")
    assert json.loads(found.read_text())["accuracy"]["samples"] == 10
    sizes = [(folder / package(target)).stat().st_size for target in ("pc", "pc-int8")]
    assert sizes[1] < 0.4 * sizes[0]


@RUNS_HERE
def test_both_call_the_pictures_the_same_in_python(folder: Path, project_root: Path) -> None:
    script = str(project_root / "examples" / "classify" / "classify.py")
    for target in ("pc", "pc-int8"):
        told = run_in_example(folder, script, package(target), "unseen/cat_1.jpg", "unseen/coffee_2.jpg").stdout
        ranking = read_ranking(told)
        assert (ranking[0].label, ranking[5].label) == ("Egyptian cat", "espresso")


@RUNS_HERE
@pytest.mark.toolchain
def test_both_call_a_picture_the_same_in_cpp(folder: Path, project_root: Path) -> None:
    picture = project_root / "examples" / "classify" / "coffee.png"
    for target in ("pc", "pc-int8"):
        done = run_program(install_programs() / "bin" / "run_model", folder / package(target), picture)
        assert read_ranking(done.stdout)[0].label == "espresso"
