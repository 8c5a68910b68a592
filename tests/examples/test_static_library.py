"""The model that is linked into a program gives the package's outputs, without any file or library of TVM."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cpp_programs import SOURCES, read_flags
from doit_project import ON_V3, DoitProject, write_project

from tvmbuild.package.archive import read_metadata
from tvmbuild.package.runtime.session import Session

pytestmark = [pytest.mark.nightly, pytest.mark.compiler]
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "static_library"


@pytest.fixture
def project(tmp_path: Path, digits: Path) -> DoitProject:
    """A project whose one cell is built with records."""
    made = write_project(tmp_path / "project", digits, ON_V3)
    ran = made.doit("compile", "tune=full")
    assert ran.code == 0, ran.output
    return made


def build(cell: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", str(FOLDER / "build.py"), str(cell), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.nights(2)
@pytest.mark.timeout(1800)  # it compiles 31 files of TVM
def test_a_linked_model_needs_no_file_and_no_library(
    project: DoitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell, out = project.root / "build/cells/digits@v3", tmp_path / "out"
    package = cell / "digits-v3.tar"
    done = build(cell, out)
    assert done.returncode == 0, done.stderr
    coverage = read_metadata(package).coverage
    assert coverage.covered > 0
    assert f"digits@v3: {coverage.covered} of {coverage.tasks} tasks have records\n" in done.stdout
    subprocess.run([sys.executable, str(FOLDER / "runtime.py"), str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    compile_flags, _ = read_flags(capsys)
    program = tmp_path / "program"
    command = [sys.executable, "-m", "ziglang", "c++", "-O1", *compile_flags, f"-I{out}", str(FOLDER / "main.cpp")]
    command += [str(SOURCES / "tvmbuild.cpp"), *map(str, sorted(out.glob("*.o"))), "-o", str(program)]
    command += ["-Wl,--whole-archive", str(tmp_path / "libtvm_static.a"), "-Wl,--no-whole-archive", "-Wl,--gc-sections"]
    subprocess.run([*command, "-lpthread", "-ldl"], check=True)
    for path in out.iterdir():
        path.unlink()
    needed = subprocess.run(["readelf", "-d", str(program)], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"NEEDED.*\[(.*)\]", needed)
    assert libraries
    assert not [name for name in libraries if "tvm" in name]
    value = np.random.default_rng(0).uniform(0, 1, (1, 1, 28, 28)).astype(np.float32)
    numbers = " ".join(repr(float(number)) for number in value.reshape(-1))
    trace = {"TMPDIR": str(tmp_path / "absent"), "PATH": ""}  # writing a library would fail
    ran = subprocess.run([program], input=numbers, env=trace, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    name, *got = ran.stdout.split()
    with Session(package) as session:
        want = session.run({"Input3": value})[name]
    np.testing.assert_array_equal(np.array(got, np.float32), want.reshape(-1))
    ran = subprocess.run([program], input="1 2", capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "error: too few numbers for Input3\n")


@pytest.mark.nights(2)
def test_cells_that_cannot_be_linked_are_told(project: DoitProject, tmp_path: Path) -> None:
    cell = project.root / "build/cells/digits@v3"
    schedule = cell / "schedule.json"
    schedule.write_text(json.dumps(json.loads(schedule.read_text())) + " ")
    done = build(cell, tmp_path / "out")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1,
        f"error: the schedule of the package in {cell} is not in {cell.parent.parent}",
    )
    done = build(cell.parent / "digits@v9", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {cell.parent}/digits@v9/digits-v9.tar is not there")
    assert not (tmp_path / "out").exists()
