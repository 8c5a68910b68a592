"""The command `tvmbuild debug`, on a project whose compiler is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from digits import INPUT, OUTPUT
from doit_project import ON_V3, DoitProject, write_project

from tvmbuild.package.inputs import write_arrays
from tvmbuild.preparing.reference import read_reference, run_onnx

WRONG = Path(__file__).parent.parent / "support" / "wrong_gemm"
FAULTY = {"PYTHONPATH": os.pathsep.join(filter(None, [str(WRONG), os.environ.get("PYTHONPATH")]))}
"""The environment in which the compiler is wrong."""
GEMM = f"first wrong place: Gemm Gemm_0, output {OUTPUT}"
FOLDER = "build/debug/digits@v3"


@pytest.fixture
def project(tmp_path: Path, digits: Path) -> DoitProject:
    return write_project(tmp_path, digits, ON_V3)


@pytest.mark.compiler
def test_the_wrong_operator_is_named_and_reduced(project: DoitProject, tmp_path: Path) -> None:
    gate = project.doit("benchmark:digits@v3", "tune=never", **FAULTY)
    assert "`tvmbuild debug digits@v3` names the operator" in gate.output

    named = project.tvmbuild("debug", "digits@v3", "--all", "--reduce", **FAULTY)
    assert named.code == 1, named.output
    lines = named.output.splitlines()
    assert GEMM in lines
    assert next(line for line in lines if line.startswith("no variant fixes it"))
    assert f"  smallest model that fails, 1 node: {FOLDER}/reduced.onnx, with its inputs in reduced.npz" in lines
    reference = read_reference(project.root / FOLDER / "reduced.npz")
    reduced = run_onnx((project.root / FOLDER / "reduced.onnx").read_bytes(), reference.inputs, "reduced")
    assert np.array_equal(reduced[OUTPUT], reference.outputs[OUTPUT])
    places = json.loads((project.root / FOLDER / "places.json").read_text())["places"]
    assert [each["operator"] for each in places][-1] == "Gemm"
    assert "the first wrong place: Gemm" in (project.root / FOLDER / "places.html").read_text()

    write_arrays(tmp_path / "zeros.npz", {INPUT: np.zeros((1, 1, 28, 28), np.float32)})
    zeros = project.tvmbuild("debug", "digits@v3", "--inputs", str(tmp_path / "zeros.npz"), **FAULTY)
    assert (zeros.code, GEMM in zeros.output) == (1, True), zeros.output

    healed = project.tvmbuild("debug", "build/cells/digits@v3/digits-v3.tar")
    assert healed.code == 1, healed.output
    assert "  built again, the package is right" in healed.output


@pytest.mark.nightly
@pytest.mark.compiler
def test_a_cell_that_was_built_again_is_right(project: DoitProject) -> None:
    assert project.doit("compile:digits@v3", "tune=never", **FAULTY).code == 0
    assert project.doit("forget", "compile:digits@v3").code == 0
    assert project.doit("compile:digits@v3", "tune=never").code == 0
    right = project.tvmbuild("debug", "digits@v3")
    assert right.code == 0, right.output
    assert "digits@v3: nothing is wrong: the largest error is " in right.output


def test_a_cell_that_is_not_there_is_told_with_the_remedy(project: DoitProject) -> None:
    for word, told in {
        "digit@v3": "Did you mean digits@v3?",
        "digits@v3": "run `doit compile:digits@v3` first",
        "other.tar": "run this in the project that built it",
    }.items():
        ran = project.tvmbuild("debug", word)
        assert (ran.code, told in ran.output) == (2, True), ran.output


@pytest.mark.compiler
def test_a_package_without_its_project_needs_its_model(
    project: DoitProject, digits: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert project.doit("compile:digits@v3", "tune=never").code == 0
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    package = str(shutil.copy(project.root / "build/cells/digits@v3/digits-v3.tar", elsewhere))

    def debug(*arguments: str, package: str = package, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tvmbuild", "debug", package, *arguments]
        return subprocess.run(
            command, cwd=elsewhere, env=os.environ | environment, capture_output=True, text=True, check=False
        )

    (elsewhere / "junk.tar").write_text("junk")
    junk = debug("--model", str(digits), package=str(elsewhere / "junk.tar"))
    assert (junk.returncode, "junk.tar is damaged" in junk.stderr) == (2, True), junk.stderr
    for words, told in {
        ("--model", "nofile.onnx"): "there is no file nofile.onnx",
        ("--model", "."): ". is a folder",
        ("--model", str(digits), "--inputs", "no.npz"): "no.npz cannot be read as .npz: No such file",
        ("--model", str(digits), "--input", f"{INPUT}=no.npy"): "no.npy cannot be read as .npy: No such file",
    }.items():
        refused = debug(*words)
        assert (refused.returncode, f"error: {told}" in refused.stderr) == (2, True), refused.stderr
    (elsewhere / "debug").write_text("a file where the folder is to be")
    blocked = debug("--model", str(digits), "--reduce")
    told = f"cannot make the folder {elsewhere}/debug/digits@v3: Not a directory"
    assert (blocked.returncode, told in blocked.stderr) == (2, True), blocked.stderr
    (elsewhere / "debug").unlink()
    alone = debug()
    assert alone.returncode == 2
    assert "digits-v3.tar has no ONNX model in it, and there is no project here that has it" in alone.stderr
    right = debug("--model", str(digits))
    assert right.returncode == 0, right.stderr
    assert right.stdout.startswith("digits@v3: nothing is wrong: the largest error is ")
    named = debug("--model", str(digits), "--all", "--reduce", **FAULTY)
    assert named.returncode == 1, named.stderr
    told = "digits@v3: this package is right, but built again by this version it is wrong: the largest error is 0."
    assert told in named.stdout
    assert GEMM in named.stdout.splitlines()
    assert "by the rule " in named.stdout
    assert "smallest model that fails, 1 node: debug/digits@v3/reduced.onnx" in named.stdout
    written = {path.name for path in (elsewhere / "debug/digits@v3").iterdir()}
    assert written == {"places.html", "places.json", "reduced.npz", "reduced.onnx"}
