"""A model whose shapes vary is quantised at each size, from samples of the largest or from pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from ranged_nets import MODEL as RANGED
from ranged_nets import draw, make_stateful_net
from sized_nets import MODEL, TARGETS, SizedProject, draw_inputs, make_project

from tvmbuild.package.archive import read_metadata, read_package
from tvmbuild.package.inputs import write_arrays
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.samples import crop_samples
from tvmbuild.preparing.quantisers.table import QUANTISERS
from tvmbuild.preparing.reference import run_onnx

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


def test_an_axis_that_is_longer_than_the_samples_repeats_them() -> None:
    whole = draw_inputs(1, 24)
    inputs = (TensorInfo("ids", (2, 8), "int64"), TensorInfo("mask", (2, 8), "int64"))
    (made,) = crop_samples([whole], ModelInputs("net", inputs))
    np.testing.assert_array_equal(made["ids"], whole["ids"][[0, 0], :8])


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


@pytest.fixture(scope="module", params=QUANTISERS)
def ranged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SizedProject:
    net = make_stateful_net()
    if request.param == "nncf":
        pytest.importorskip("nncf")
        (node,) = (each for each in net.graph.node if list(each.output) == ["sum"])
        node.op_type = "Sub"  # simplify makes a Gemm of a product and an Add, and NNCF fails for a computed bias
    root = tmp_path_factory.mktemp("quantised_range")
    project = make_project(root, RANGED + QUANTIZE.replace("onnxruntime", request.param), net)
    (root / "targets.yaml").write_text(TARGETS.replace("num-cores: 2,", "num-cores: 2, precision: int8,"))
    samples = [draw(8, seed) for seed in range(4)]
    write_arrays(root / "samples.npz", {name: np.concatenate([each[name] for each in samples]) for name in samples[0]})
    done = project.run("benchmark")
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def test_all_batches_of_a_range_have_the_constants_of_the_largest(ranged: SizedProject) -> None:
    folder = ranged.root / "build/models/net/quantised"

    def list_constants(path: Path) -> dict[str, bytes]:
        graph = onnx.load(path).graph
        values = {each.name: numpy_helper.to_array(each).tobytes() for each in graph.initializer}
        names = ((f"{node.output[0]} {place}", name) for node in graph.node for place, name in enumerate(node.input))
        return {reader: values[name] for reader, name in names if name in values}

    largest = list_constants(folder / "model.onnx")
    for size in ("B1", "B2", "B3", "B9"):
        assert list_constants(folder / "sizes" / size / "model.onnx") == largest
    assert len(largest) > 6


def test_quantised_parts_are_rounded_as_the_whole(ranged: SizedProject) -> None:
    whole = draw(8, 5)
    folder = ranged.root / "build/models/net/quantised"
    want = run_onnx((folder / "model.onnx").read_bytes(), whole, "the whole")
    for rows in (1, 2, 3):
        part = {"x": whole["x"][:rows], "state": whole["state"][:, :rows], "gain": whole["gain"]}
        got = run_onnx((folder / "sizes" / f"B{rows}" / "model.onnx").read_bytes(), part, "a part")
        # another rounding would move them by a step, more than a hundredth
        np.testing.assert_allclose(got["y"], want["y"][:rows], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got["next"], want["next"][:, :rows], rtol=1e-5, atol=1e-5)


def test_the_package_computes_a_quantised_batch_in_parts(ranged: SizedProject) -> None:
    whole = draw(23, 5)
    model = (ranged.root / "build/models/net/quantised/model.onnx").read_bytes()
    with Session(ranged.package) as session:
        got = session.run(whole)
        for start in (0, 15):
            feed = {"x": whole["x"][start:][:8], "state": whole["state"][:, start:][:, :8], "gain": whole["gain"]}
            want = run_onnx(model, feed, "the quantised model")
            np.testing.assert_allclose(got["y"][start:][:8], want["y"], rtol=1e-2, atol=2e-2)
            np.testing.assert_allclose(got["next"][:, start:][:, :8], want["next"], rtol=1e-2, atol=2e-2)
