"""A package with a range computes batches without a function in parts, and gives the original's results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from cpp_programs import SUPPORT, build_by_cmake, run_program
from made_once import make_once
from onnx import TensorProto, helper, numpy_helper
from sized_nets import SizedProject, make_project

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler

MODEL = """\
models:
  net:
    source: {path: net.onnx}
    inputs: {x: {shape: [B, 16]}, state: {shape: [2, B, 3]}, gain: {shape: [4]}}
    sizes: {B: {range: 1..40, build: [1, 3, 8]}}
"""
BATCHES = [1, 2, 3, 4, 5, 8, 11, 12, 23, 40, 1]


def make_stateful_net() -> onnx.ModelProto:
    """Return a network with the batch on different axes: x, state, gain → y [B, 4], next [2, B, 3]."""
    random = np.random.RandomState(0)
    weights = {
        "w": random.uniform(-1, 1, (16, 4)),
        "u": random.uniform(-1, 1, (3, 4)),
        "v": random.uniform(-1, 1, (4, 3)),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("MatMul", ["state", "u"], ["su"]),
        helper.make_node("ReduceSum", ["su", "first"], ["s"], keepdims=0),
        helper.make_node("Add", ["xw", "s"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["t"]),
        helper.make_node("Mul", ["t", "gain"], ["y"]),
        helper.make_node("MatMul", ["y", "v"], ["yv"]),
        helper.make_node("Add", ["state", "yv"], ["next"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 16]),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, "B", 3]),
            helper.make_tensor_value_info("gain", TensorProto.FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 4]),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, "B", 3]),
        ],
        [
            *(numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()),
            numpy_helper.from_array(np.array([0]), "first"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def draw(batch: int, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = {"x": (batch, 16), "state": (2, batch, 3), "gain": (4,)}
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def project() -> SizedProject:
    def build(folder: Path) -> None:
        done = make_project(folder, MODEL, make_stateful_net()).run()
        assert done.returncode == 0, done.stdout + done.stderr

    return SizedProject(make_once("project with a range", build))


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


def program_of_sizes() -> Path:
    return make_once("C++ sizes", lambda folder: build_by_cmake(folder, source=SUPPORT / "cpp_sizes")) / "build/sizes"


@pytest.mark.toolchain
def test_cpp_gives_pythons_results_in_parts(project: SizedProject, tmp_path: Path) -> None:
    words, wanted = [], []
    with Session(project.package, threads=2) as session:
        for number, batch in enumerate(BATCHES):
            inputs = draw(batch, batch)
            for place, name in enumerate(info.name for info in session.inputs):
                (tmp_path / f"{number}-{place}.in").write_bytes(inputs[name].tobytes())
            words.append(",".join("x".join(map(str, inputs[info.name].shape)) for info in session.inputs))
            wanted.append(session.run(inputs))
        names = [info.name for info in session.outputs]
    done = run_program(program_of_sizes(), project.package, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    for number, outputs in enumerate(wanted):
        for place, name in enumerate(names):
            for end in ("out", "copy"):
                got = np.fromfile(tmp_path / f"{number}-{place}.{end}", np.float32).reshape(outputs[name].shape)
                np.testing.assert_array_equal(got, outputs[name])
    refused = run_program(program_of_sizes(), project.package, tmp_path, "41x16,2x41x3,4")
    assert refused.returncode == 1
