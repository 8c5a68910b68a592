"""A package whose shapes vary gives the original's results at each size and between them, in Python and C++."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from cpp_programs import install_programs, program_of_sizes, run_as_python_does, run_program
from sized_nets import SizedProject, build_project, draw_inputs, make_masked_net

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_package, write_package
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler

SHAPES = [(4, 24), (1, 8), (2, 16), (2, 8), (1, 1), (3, 9), (2, 7), (4, 23), (1, 8)]
"""Sizes of the package, and some between them."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> SizedProject:
    return build_project(tmp_path_factory.mktemp("sized"))


@pytest.fixture(scope="module")
def original() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(make_masked_net().SerializeToString(), providers=["CPUExecutionProvider"])


def compute(original: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(zip(("rows", "pooled"), original.run(["rows", "pooled"], inputs), strict=True))


def test_one_session_runs_every_size(project: SizedProject, original: onnxruntime.InferenceSession) -> None:
    with Session(project.package, threads=2) as session:
        told = "({'B': 1, 'T': 8}, {'B': 2, 'T': 8}, {'B': 2, 'T': 16}, {'B': 4, 'T': 24})"
        assert str(session.sizes) == told
        assert session.inputs[0].shape == (4, 24)
        for seed, (batch, length) in enumerate(SHAPES):
            inputs = draw_inputs(batch, length, seed)
            got = session.run(inputs)
            for name, want in compute(original, inputs).items():
                assert got[name].shape == want.shape
                np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4)


def test_inputs_without_a_size_are_refused_with_the_sizes(project: SizedProject) -> None:
    with Session(project.package) as session:
        with pytest.raises(TvmbuildError, match="net takes no B=5 T=8") as refused:
            session.run(draw_inputs(5, 8))
        assert refused.value.hint == ("its sizes are B=1 T=8, B=2 T=8, B=2 T=16, B=4 T=24; smaller B and T are padded")
        inputs = draw_inputs(2, 8) | {"mask": np.ones((2, 9), np.int64)}
        with pytest.raises(TvmbuildError, match="disagree about T: 8, and 9 in mask"):
            session.run(inputs)
        with pytest.raises(TvmbuildError, match=r"the input ids of net is \[B, T\], got \[8\]"):
            session.run({"ids": np.zeros(8, np.int64), "mask": np.zeros(8, np.int64)})
        with pytest.raises(TvmbuildError, match="needs the input mask"):
            session.run({"ids": np.zeros((1, 8), np.int64)})


def test_bound_calls_and_arrays_have_a_size(project: SizedProject, original: onnxruntime.InferenceSession) -> None:
    session = Session(project.package)
    array = session.empty("ids", {"B": 2, "T": 16})
    assert array.shape == (2, 16)
    assert session.empty("ids").shape == (4, 24)
    with pytest.raises(TvmbuildError, match="has no size"):
        session.empty("ids", {"B": 2, "T": 17})
    inputs = draw_inputs(2, 16)
    session.bind(inputs)()
    on_device = session.run_on_device(inputs)
    np.testing.assert_allclose(
        session.to_host(on_device["rows"]), compute(original, inputs)["rows"], rtol=1e-4, atol=1e-4
    )
    session.close()
    with pytest.raises(TvmbuildError, match="is closed"):
        session.run(inputs)


def test_equal_weights_are_stored_once(project: SizedProject) -> None:
    package = read_package(project.package)
    assert package.info.sizes is not None
    assert [each.library for each in package.info.sizes.functions] == [
        "size-B1-T8.so",
        "size-B2-T8.so",
        "size-B2-T16.so",
        "mod.so",
    ]
    alone = read_package(next((project.package.parent / "parts").glob("B4-T24-*.tar")))
    largest = package.info.sizes.functions[-1]
    assert len(package.params) == len(alone.params)
    for each in package.info.sizes.functions:  # one of the weights alone would be packed for few rows, and for many
        assert set(each.params) == set(largest.params)
    assert list((project.package.parent / "parts/shared").glob("*.tar"))
    (note,) = [each for each in package.info.notes if "sizes:" in each]
    assert "4 sizes: the largest needs 0.0 MB of weights; the others add" in note
    with tarfile.open(project.package) as archive:
        assert archive.getnames()[0] == "mod.json"


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda sizes: sizes["functions"][0].update(library="../../x.so"), "libraries with unexpected names"),
        (lambda sizes: sizes["functions"][0].update(library="mod.so"), "libraries with unexpected names"),
        (lambda sizes: sizes["functions"][0].update(library="size-T9.so"), "lists other sizes than the archive holds"),
        (lambda sizes: sizes["functions"][0].update(values={"B": 1}), "other letters"),
        (lambda sizes: sizes["functions"][0].update(values={"B": 0, "T": 8}), "values.B is 0"),
        (lambda sizes: sizes["functions"][0].update(params=[-1]), "not a natural number"),
        (lambda sizes: sizes["functions"][0].update(outputs={}), "other letters or outputs"),
        (lambda sizes: sizes["functions"][0]["outputs"].update(rows=[1, 7, 24]), "shorter than their letters"),
        (lambda sizes: [each["values"].update(Z=1) for each in sizes["functions"]], "a letter without a value"),
        (
            lambda sizes: [each["outputs"].pop("rows") for each in (sizes, *sizes["functions"])],
            "other tensors than the package's",
        ),
    ],
)
def test_strange_sizes_in_a_package_are_refused(
    project: SizedProject, tmp_path: Path, change: Callable[[dict[str, Any]], object], fault: str
) -> None:
    with tarfile.open(project.package) as archive:
        members = {m.name: stream.read() for m in archive if (stream := archive.extractfile(m)) is not None}
    value = json.loads(members["mod.json"])
    change(value["sizes"])
    with tarfile.open(tmp_path / "m.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in (members | {"mod.json": json.dumps(value).encode()}).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    with pytest.raises(TvmbuildError, match=fault):
        read_package(tmp_path / "m.tar")
    program = program_of_sizes()
    refused = run_program(program, tmp_path / "m.tar", tmp_path)
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr


def test_a_weight_that_is_not_there_is_told(project: SizedProject, tmp_path: Path) -> None:
    package = read_package(project.package)
    sizes = package.info.sizes
    assert sizes is not None
    functions = (*sizes.functions[:-1], replace(sizes.functions[-1], params=(0, 10_000, 1)))
    write_package(
        tmp_path / "m.tar", replace(package, info=replace(package.info, sizes=replace(sizes, functions=functions)))
    )
    with pytest.raises(TvmbuildError, match="does not fit together"):
        Session(tmp_path / "m.tar")


@pytest.mark.toolchain
def test_cpp_gives_pythons_results_at_every_size(project: SizedProject, tmp_path: Path) -> None:
    calls = [draw_inputs(batch, length, number) for number, (batch, length) in enumerate(SHAPES)]
    told = run_as_python_does(project.package, tmp_path, calls).splitlines()
    assert told[0].split() == ["B=1", "T=8", "B=2", "T=8", "B=2", "T=16", "B=4", "T=24"]
    assert told[3].split() == ["2", "16", "24", "2", "24"]
    refused = run_program(program_of_sizes(), project.package, tmp_path, "5x8,5x8")
    assert refused.returncode == 1
    assert "net takes no B=5 T=8; its sizes are B=1 T=8, B=2 T=8" in refused.stderr


@pytest.mark.toolchain
def test_bench_model_times_a_size_beside_a_package_of_it_alone(project: SizedProject) -> None:
    bench = install_programs() / "bin/bench_model"
    (alone,) = (project.package.parent / "parts").glob("B2-T16-*.tar")
    words = ("--repeat", 2, "--size")
    done = run_program(bench, alone, project.package, *words, "B=2,T=16")
    assert done.returncode == 0, done.stderr
    assert f"{project.package} takes " in done.stdout
    done = run_program(bench, alone, project.package, *words, "B=2,T=13")
    assert done.returncode == 1
    assert "the input ids of net is int64 [2, 16], got int64 [2, 13]" in done.stderr
    for size in ("B=2,T=25", "B=2", "B=2,Z=8"):
        done = run_program(bench, project.package, *words, size)
        assert done.returncode == 1
        assert "its sizes are B=1 T=8, B=2 T=8, B=2 T=16, B=4 T=24" in done.stderr
    done = run_program(bench, alone, *words, "B=2,T=16")
    assert (done.returncode, done.stderr) == (1, "error: net has no size B=2 T=16; it has one shape\n")
    for size in ("T", "B=2,T=16,", ",B=2,T=16", ","):
        assert run_program(bench, project.package, *words, size).returncode == 2
