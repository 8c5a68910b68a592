"""The classify example, built from the shipped records: command, Python and C++ print the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cpp_programs import RankedLine, install_programs, read_ranking, run_program
from example_project import build_example, copy_example

from tvmbuild.package.archive import read_metadata

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    """A copy of the example, beside the files that it shares with tvmbuild's own project."""
    return copy_example(project_root, tmp_path_factory.mktemp("classify"), "classify")


def build(folder: Path, model: str) -> str:
    """Build the model if that has not been done; return its package's path in the folder."""
    build_example(folder, f"compile:{model}@x86-64-v3")
    return f"build/cells/{model}@x86-64-v3/{model}-x86-64-v3.tar"


def run(folder: Path, *command: str) -> str:
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def runner() -> Path:
    return install_programs() / "bin" / "run_model"


@pytest.mark.parametrize("model", ["mobilenet_v2", pytest.param("efficientnet_lite0", marks=pytest.mark.nightly)])
def test_python_and_the_command_agree(folder: Path, model: str) -> None:
    package = build(folder, model)
    coverage = read_metadata(folder / package).coverage
    assert coverage.covered == coverage.tasks > 0, "the shipped records no longer fit"
    python = read_ranking(run(folder, "classify.py", package, "chelsea.png", "coffee.png"))
    assert len(python) == 10
    assert (python[0].label, python[5].label) == ("Egyptian cat", "espresso")
    told = run(folder, "-m", "tvmbuild", "run", package, "--input", "input=chelsea.png", "--print-top", "5")
    lines = [line.split(maxsplit=2) for line in told.splitlines()[-5:]]
    by_command = [RankedLine(int(index), float(value), label.strip()) for index, value, label in lines]
    assert_close(by_command, python[:5])


@pytest.mark.nightly
@pytest.mark.toolchain
@pytest.mark.parametrize("model", ["mobilenet_v2", "efficientnet_lite0"])
def test_python_and_cpp_agree(folder: Path, runner: Path, model: str) -> None:
    package = build(folder, model)
    python = read_ranking(run(folder, "classify.py", package, "chelsea.png", "coffee.png"))
    for name, want in (("chelsea.png", python[:5]), ("coffee.png", python[5:])):
        done = run_program(runner, folder / package, folder / name)
        assert done.returncode == 0, done.stderr
        assert_close(read_ranking(done.stdout), want)


def assert_close(got: list[RankedLine], want: list[RankedLine]) -> None:
    assert [(each.index, each.label) for each in got] == [(each.index, each.label) for each in want]
    for one, other in zip(got, want, strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-4)
