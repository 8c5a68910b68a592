"""The planner's notes on a model's inputs, which it reads without the onnx library."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.open_dimensions import Dim
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import InputSpec, SimplifyOptions
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.engine.onnx_inputs import read_inputs
from tvmbuild.engine.open_inputs import foresee_inputs, recall_batch


def by_onnx(path: Path) -> dict[str, tuple[Dim, ...]]:
    graph = onnx.load(path, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    return {
        value.name: tuple(
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
            for dim in value.type.tensor_type.shape.dim
        )
        for value in graph.input
        if value.name not in weights and value.type.tensor_type.HasField("shape")
    }


def save(path: Path, **shapes: tuple[int | str | None, ...] | None) -> Path:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    weights = [numpy_helper.from_array(onnx.numpy_helper.np.ones(3, "float32"), "w")]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (3,)))  # as old files do
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", inputs, [output], weights)
    onnx.save(helper.make_model(graph), path)
    return path


def test_inputs_are_read_as_onnx_reads_them(tmp_path: Path, project_root: Path) -> None:
    path = save(tmp_path / "net.onnx", x=("N", 3, None, -1), s=(), free=None, big=(1 << 40, 2))
    assert read_inputs(path) == by_onnx(path)
    assert read_inputs(path) == {"x": ("N", 3, None, None), "s": (), "big": (1 << 40, 2)}
    for model in sorted((project_root / "models").glob("*.onnx")):
        assert read_inputs(model) == by_onnx(model), model


@pytest.mark.parametrize("size", [0, 1, 2, 10, 40, 80])
def test_a_file_that_is_cut_short_or_none_has_no_inputs(tmp_path: Path, size: int) -> None:
    path = save(tmp_path / "net.onnx", x=("N", 3))
    path.write_bytes(path.read_bytes()[:size])
    assert read_inputs(path) == {}
    path.write_bytes(b"no model at all"[:size])
    assert read_inputs(path) == {}
    assert read_inputs(tmp_path / "missing.onnx") == {}


def make_step(folder: Path, *inputs: InputSpec) -> Step[SimplifyStep]:
    options = SimplifyStep("net", Source("path", "net.onnx"), inputs, SimplifyOptions())
    files = FrozenMap({"source": folder / "net.onnx"})
    return Step("simplify", "net", options, files, FrozenMap({"info": folder / "simplify.json"}), root=folder)


def test_what_a_run_would_say(tmp_path: Path) -> None:
    save(tmp_path / "net.onnx", x=("N", 3), m=("N", "seq"), k=("len",))
    taken, asked = foresee_inputs(make_step(tmp_path))
    assert taken == "batch taken as 1: net.x, net.m"
    assert asked.startswith("net: inputs have dynamic dimensions: m 1 (seq); k 0 (len); fix them in models.yaml")
    given = (InputSpec("x", (1, 3)), InputSpec("m", (1, 5)), InputSpec("k", value="[1, 2]"))
    assert foresee_inputs(make_step(tmp_path, *given)) == []


def test_what_a_run_has_said(tmp_path: Path) -> None:
    step = make_step(tmp_path)
    assert recall_batch(step) == []
    write_json(step.output("info"), {"notes": ["not simplified", "batch taken as 1: net.x"]})
    assert recall_batch(step) == ["batch taken as 1: net.x"]
    write_json(step.output("info"), [])
    assert recall_batch(step) == []
