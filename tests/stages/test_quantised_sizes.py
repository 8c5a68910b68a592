"""A model whose shapes vary is quantised at each size, from samples of the largest or from pictures."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from sized_nets import MODEL, TARGETS, SizedProject, draw_inputs, make_project

from tvmbuild.package.archive import read_metadata, read_package
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.samples import crop_samples

pytestmark = pytest.mark.compiler

QUANTIZE = "    quantize: {calibration: {inputs: samples.npz}, method: onnxruntime}\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> SizedProject:
    root = tmp_path_factory.mktemp("quantised")
    project = make_project(root, MODEL + QUANTIZE)
    (root / "targets.yaml").write_text(TARGETS.replace("num-cores: 2,", "num-cores: 2, precision: int8,"))
    samples = [draw_inputs(4, 24, seed) for seed in range(4)]
    arrays = {name: np.concatenate([each[name] for each in samples]) for name in samples[0]}
    np.savez(root / "samples.npz", **arrays)  # type: ignore[arg-type]
    done = project.run("benchmark")
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def test_samples_of_the_largest_size_are_cropped() -> None:
    inputs = (TensorInfo("ids", (1, 8), "int64"), TensorInfo("mask", (1, 8), "int64"))
    whole = draw_inputs(4, 24)
    (cropped,) = crop_samples([whole], ModelInputs("net", inputs))
    for name, value in whole.items():
        np.testing.assert_array_equal(cropped[name], value[:1, :8])


def test_every_size_is_quantised(project: SizedProject) -> None:
    folder = project.root / "build/models/net/quantised"
    told = json.loads((folder / "quantize.json").read_text())
    assert sorted(told["sizes"]) == ["B1-T8", "B2-T16", "B2-T8"]
    for size in told["sizes"]:
        model = onnx.load(folder / "sizes" / size / "model.onnx")
        assert any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    result = json.loads((project.package.parent / "result.json").read_text())
    assert len(result["sizes"]) == len(told["sizes"])


def test_the_sizes_agree_between_each_other(project: SizedProject) -> None:
    inputs = draw_inputs(2, 8, 9)
    with Session(project.package) as session:
        two = session.run(inputs)["rows"]
        for row in range(2):
            one = session.run({name: value[row : row + 1] for name, value in inputs.items()})["rows"]
            assert np.abs(one - two[row : row + 1]).max() < 0.1 * np.abs(two).max()


def test_integer_weights_are_shared(project: SizedProject) -> None:
    sizes = read_metadata(project.package).sizes
    assert sizes is not None
    largest = sizes.functions[-1]
    shared = [len(set(each.params) & set(largest.params)) for each in sizes.functions[:-1]]
    assert all(shared), shared
    assert len(read_package(project.package).params) < len(sizes.functions) * 2**17
