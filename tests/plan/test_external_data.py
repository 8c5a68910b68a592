from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.external_data import list_external_data


@pytest.mark.parametrize("location", ["weights.bin", "sub/" + "w" * 150 + ".bin"])
def test_locations_are_found(tmp_path: Path, location: str) -> None:
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])],
        [weights],
    )
    path = tmp_path / "net.onnx"
    (tmp_path / location).parent.mkdir(exist_ok=True)
    model = helper.make_model(graph)
    onnx.save(model, path)
    assert list_external_data(path) == []
    onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=0)
    assert list_external_data(path) == [location]
    (tmp_path / location).unlink()
    assert list_external_data(path) == []


@pytest.mark.parametrize("content", [b"", b"no model", b"\x0a\x08location\x12", b"\x0a\x08location\x12\xff"])
def test_other_files_have_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert list_external_data(path) == []
