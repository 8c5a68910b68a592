"""Small ONNX models, and the Step that simplifies one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import InputSpec, SimplifyOptions
from tvmbuild.base.steps import SimplifyStep, Step

NO_OPTIONS = SimplifyOptions()
MakeStep = Callable[..., Step[SimplifyStep]]


@pytest.fixture(autouse=True)
def _own_folders(own_folders: None) -> None:
    """Keep steps that run in the test's process away from the user's cache and locks."""


@pytest.fixture
def simplify_step(tmp_path: Path) -> MakeStep:
    """Return a function that makes the Step which simplifies ``model`` (a ModelProto, or a path) into tmp_path/out."""

    def make(
        model: onnx.ModelProto | Path, *inputs: InputSpec, options: SimplifyOptions = NO_OPTIONS
    ) -> Step[SimplifyStep]:
        path = model if isinstance(model, Path) else tmp_path / "source.onnx"
        if not isinstance(model, Path):
            onnx.save(model, str(path))
        out = tmp_path / "out"
        outputs = (("model", "model.onnx"), ("reference", "reference.npz"), ("info", "simplify.json"))
        return Step(
            "simplify",
            "net",
            SimplifyStep("net", Source("path", str(path)), inputs, options),
            outputs=FrozenMap({role: out / name for role, name in outputs}),
            root=tmp_path,
        )

    return make


@pytest.fixture
def dense() -> Callable[..., Any]:
    """Return a function that makes y = relu(x @ w + 0), with an Identity and a dead branch to simplify away."""

    def make(shape: tuple[Any, ...] = ("N", 4), dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
        weight = np.random.RandomState(0).uniform(-1, 1, (4, 3)).astype(helper.tensor_dtype_to_np_dtype(dtype))
        nodes = [
            helper.make_node("Identity", ["x"], ["same"]),
            helper.make_node("MatMul", ["same", "w"], ["product"]),
            helper.make_node("Identity", ["product"], ["product2"]),
            helper.make_node("Relu", ["product2"], ["y"]),
        ]
        graph = helper.make_graph(
            nodes,
            "net",
            [helper.make_tensor_value_info("x", dtype, shape)],
            [helper.make_tensor_value_info("y", dtype, (shape[0], 3))],
            [numpy_helper.from_array(weight, "w")],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    return make
