"""A package with a range computes batches without a function in parts, and gives the original's results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from c_programs import call_by_ctypes, write_inputs
from cpp_programs import program_of_sizes, run_as_python_does, run_program
from ranged_nets import build_ranged_project, draw, make_stateful_net
from sized_nets import SizedProject

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler

BATCHES = [1, 2, 3, 4, 5, 8, 11, 12, 23, 40, 1]


@pytest.fixture(scope="module")
def project() -> SizedProject:
    return build_ranged_project()


@pytest.fixture(scope="module")
def compute() -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    made = onnxruntime.InferenceSession(make_stateful_net().SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda inputs: dict(zip(("y", "next"), made.run(["y", "next"], inputs), strict=True))


def test_every_batch_of_the_range_has_the_originals_results(project: SizedProject, compute: Any) -> None:
    with Session(project.package, threads=2) as session:
        assert [dict(each) for each in session.sizes] == [{"B": 1}, {"B": 3}, {"B": 8}]
        for batch in BATCHES:
            inputs = draw(batch, batch)
            got, want = session.run(inputs), compute(inputs)
            on_device = session.run_on_device(inputs)
            session.bind(inputs)()
            for name in want:
                assert got[name].shape == want[name].shape
                np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-5)
                if batch > 8:  # outputs of padded inputs are not cut on a device
                    np.testing.assert_array_equal(session.to_host(on_device[name]), got[name])


def test_rows_that_lie_apart_in_memory_are_taken(project: SizedProject, compute: Any) -> None:
    inputs = draw(11)
    apart = inputs | {"x": np.asfortranarray(inputs["x"]), "state": draw(22)["state"][:, ::2]}
    with Session(project.package) as session:
        np.testing.assert_allclose(session.run(apart)["next"], compute(apart)["next"], rtol=1e-5, atol=1e-5)


def test_a_batch_outside_of_the_range_is_refused(project: SizedProject) -> None:
    with Session(project.package) as session:
        for batch in (0, 41):
            with pytest.raises(TvmbuildError, match=f"net takes no B={batch}") as refused:
                session.run(draw(batch))
            assert refused.value.hint == "its sizes are B=1, B=3, B=8; B from 1 to 40 is computed in parts of them"


def test_the_gate_and_the_benchmark_have_batches_without_a_function(project: SizedProject) -> None:
    result = json.loads((project.package.parent / "result.json").read_text())
    assert [each["size"] for each in result["sizes"]] == ["B1", "B3", "B2", "B9"]
    sizes = read_metadata(project.package).sizes
    assert sizes is not None
    costs = [each.cost for each in sizes.functions]
    assert costs == sorted(costs)
    assert costs[0] > 0


@pytest.mark.toolchain
def test_cpp_gives_pythons_results_in_parts(project: SizedProject, tmp_path: Path) -> None:
    run_as_python_does(project.package, tmp_path, [draw(batch, batch) for batch in BATCHES])
    refused = run_program(program_of_sizes(), project.package, tmp_path, "41x16,2x41x3,4")
    assert refused.returncode == 1


@pytest.mark.toolchain
def test_c_gives_pythons_results_in_parts(project: SizedProject, tmp_path: Path) -> None:
    for batch in (2, 8, 23, 40):
        inputs = draw(batch, batch)
        write_inputs(tmp_path, inputs)
        assert call_by_ctypes("arrays", project.package, tmp_path)["sizes"] == [{"B": 1}, {"B": 3}, {"B": 8}]
        with Session(project.package) as session, np.load(tmp_path / "outputs.npz") as stored:
            for got, want in zip(stored.values(), session.run(inputs).values(), strict=True):
                np.testing.assert_array_equal(got, want)
