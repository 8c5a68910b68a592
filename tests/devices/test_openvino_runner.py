from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.errors import TvmbuildError


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """A model: sum = a + b, product = a * b, and the sum once more under another name."""
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["a", "b"], ["sum"]),
            helper.make_node("Mul", ["a", "b"], ["product"]),
            helper.make_node("Identity", ["sum"], ["again"]),
        ],
        "net",
        [tensor(name, TensorProto.FLOAT, (3,)) for name in "ba"],
        [tensor(name, TensorProto.FLOAT, (3,)) for name in ("product", "again", "sum")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"))
    inputs: dict[str, Any] = {
        "input:a": np.array([1, 2, 3], dtype=np.float32),
        "input:b": np.array([5, 7, 9], dtype=np.float32),
    }
    np.savez(tmp_path / "r.npz", **inputs)
    return Load("openvino", tmp_path / "m.onnx", tmp_path / "r.npz", 1)


def test_inputs_and_outputs_are_taken_by_name(load: Load) -> None:
    with start_worker(load) as worker:
        assert worker.threads == 1
        got = {name: value.tolist() for name, value in worker.outputs().items()}
        assert all(ms > 0 for ms in worker.time(2, 5))
    assert {name: got[name] for name in ("sum", "product", "again")} == {
        "sum": [6, 9, 12],
        "product": [5, 14, 27],
        "again": [6, 9, 12],
    }


def test_a_model_that_openvino_cannot_read_is_an_error_with_its_reason(load: Load) -> None:
    load.model.write_bytes(b"no model")
    with pytest.raises(TvmbuildError, match=r"the process that ran m\.onnx failed"), start_worker(load):
        pytest.fail("it loaded")
