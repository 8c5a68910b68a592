"""The option `--size` of `tvmbuild run` and `tvmbuild bench`, on a package whose shapes vary."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from sized_nets import SizedProject, build_project, draw_inputs, make_masked_net

from tvmbuild.cli import main
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.inputs import write_arrays

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("own_folder")]
SIZES = "its sizes are B=1 T=8, B=2 T=8, B=2 T=16, B=4 T=24; smaller B and T are padded"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> SizedProject:
    return build_project(tmp_path_factory.mktemp("sized"))


@pytest.mark.parametrize(
    ("words", "title", "shape"),
    [
        ([], "net at B=4 T=24 for v3", (4, 24)),
        (["--size", "T=16,B=2"], "net at B=2 T=16 for v3", (2, 16)),
        (["--size", "B=2,T=13"], "net at B=2 T=13 padded to B=2 T=16 for v3", (2, 13)),
    ],
)
def test_generated_inputs_have_the_size(
    project: SizedProject, words: list[str], title: str, shape: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(project.package), "--fill", "ones", "--output", "o.npz", *words]) == 0
    assert title in capsys.readouterr().out
    ones = np.ones(shape, np.int64)
    session = onnxruntime.InferenceSession(make_masked_net().SerializeToString(), providers=["CPUExecutionProvider"])
    with np.load("o.npz") as got:
        wanted = session.run(["rows", "pooled"], {"ids": ones, "mask": ones})
        for name, want in zip(("rows", "pooled"), wanted, strict=True):
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--size", "B=5,T=8"], f"net takes no B=5 T=8\n  hint: {SIZES}"),
        (["--size", "T=8"], f"net takes no T=8: a size has B and T\n  hint: {SIZES}"),
        (["--size", "B=1,Z=8"], "net takes no B=1 Z=8: a size has B and T"),
        (["--size", "B=2,T=16", "--inputs", "in.npz"], "the input ids of net is int64 [2, 16], got int64 [1, 8]"),
    ],
)
def test_other_sizes_are_refused(
    project: SizedProject, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_arrays(Path("in.npz"), draw_inputs(1, 8))
    assert main(["run", str(project.package), *words]) == 1
    assert told in capsys.readouterr().err


def test_texts_that_are_no_sizes_are_refused(project: SizedProject, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("16", "T=", "T=0", "T=x", "T=8,T=9", "T=8,", "=8"):
        with pytest.raises(SystemExit) as ended:
            main(["run", str(project.package), "--size", text])
        assert ended.value.code == 2
        assert f"{text!r} is not T=64 or H=320,W=640" in capsys.readouterr().err


def test_a_package_of_one_shape_has_no_sizes(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(package), "--size", "T=64"]) == 1
    assert "net has one shape, and no sizes to choose from" in capsys.readouterr().err


def test_a_profile_has_the_operators_of_its_size(project: SizedProject) -> None:
    flops = {}
    for size in ("B=1,T=8", "B=4,T=24"):
        words = ["--size", size, "--profile-json", "p.json", "--repeat", "2"]
        assert main(["run", str(project.package), *words]) == 0
        profile = json.loads(Path("p.json").read_text())
        rows = profile["operators"]
        values = {letter: int(value) for letter, value in (each.split("=") for each in size.split(","))}
        assert profile["size"] == values
        operators = read_metadata(project.package).at_values(values).operators
        assert operators is not None
        known = {each.function: each.flops for each in operators}
        assert {row["function"] for row in rows} >= set(known)
        assert all(row["flops"] == known[row["function"]] * row["calls"] for row in rows if row["function"] in known)
        flops[size] = sum(row["flops"] or 0 for row in rows)
    assert 0 < 12 * flops["B=1,T=8"] <= flops["B=4,T=24"]  # twelve times as many tokens, and longer rows of attention


def test_bench_times_a_size(project: SizedProject, capsys: pytest.CaptureFixture[str]) -> None:
    package = str(project.package)
    words = ["--vs", package, "--repeat", "3"]
    assert main(["bench", package, *words, "--size", "B=2,T=13"]) == 0
    assert main(["bench", package, *words, "--size", "B=5,T=13"]) == 1
    assert f"net takes no B=5 T=13\n  hint: {SIZES}" in capsys.readouterr().err


def test_bench_times_a_size_of_a_cell(project: SizedProject) -> None:
    done = project.command("bench", "net@v3", "--size", "B=2,T=16", "--repeat", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "net@v3 at B2-T16: 2 threads" in done.stdout
    assert "not added to the history, whose benchmarks are of the largest size" in done.stdout
    done = project.command("bench", "net@v3", "--size", "B=2,T=13")
    assert done.returncode == 1
    told = done.stdout + done.stderr
    assert "net@v3 has no reference for B=2 T=13" in told
    assert "name one of B1-T8, B2-T8, B2-T16, B4-T24, or time the package" in told
