"""A package with listed sizes on lavapipe: inputs between two sizes are padded there, in Python and C++."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from cpp_programs import install_programs, run_as_python_does, run_program, use_pythons_vulkan
from made_once import make_once
from sized_nets import MODEL, SizedProject, draw_inputs, make_masked_net, make_project
from vulkan_project import TARGETS

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]

SHAPES = [(4, 24), (1, 8), (2, 16), (1, 1), (3, 9), (2, 7), (4, 23), (1, 8)]
"""Sizes of the package, and some between them."""


def build_package() -> Path:
    """Return the package of the masked network. It is built once; do not write to it."""

    def build(folder: Path) -> None:
        project = make_project(folder, MODEL)
        (folder / "targets.yaml").write_text(TARGETS)
        done = project.run("compile")
        assert done.returncode == 0, done.stdout + done.stderr

    return SizedProject(make_once("sized package on lavapipe", build), "soft").package


@pytest.fixture(scope="module")
def package() -> Path:
    return build_package()


def test_padded_inputs_give_the_originals_results(package: Path) -> None:
    original = onnxruntime.InferenceSession(make_masked_net().SerializeToString(), providers=["CPUExecutionProvider"])
    with Session(package) as session:
        for seed, (batch, length) in enumerate(SHAPES):
            inputs = draw_inputs(batch, length, seed)
            got = session.run(inputs)
            for name, want in zip(("rows", "pooled"), original.run(["rows", "pooled"], inputs), strict=True):
                assert got[name].shape == want.shape
                np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4)


def test_inputs_on_the_device_have_one_of_the_sizes(package: Path) -> None:
    with Session(package) as session:
        exact, between = (
            {name: session.to_device(value) for name, value in draw_inputs(2, length).items()} for length in (16, 9)
        )
        there = session.run_on_device(exact)
        np.testing.assert_array_equal(session.to_host(there["rows"]), session.run(draw_inputs(2, 16))["rows"])
        with pytest.raises(TvmbuildError, match=r"on vulkan:\d would have to be padded or cut"):
            session.run(between)


@pytest.mark.toolchain
def test_cpp_gives_pythons_results_at_every_size(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_pythons_vulkan(monkeypatch)
    run_as_python_does(package, tmp_path, [draw_inputs(*shape, seed) for seed, shape in enumerate(SHAPES)])
    done = run_program(install_programs() / "bin/bench_model", package, "--size", "B=2,T=16", "--repeat", 2)
    assert done.returncode == 0, done.stderr
