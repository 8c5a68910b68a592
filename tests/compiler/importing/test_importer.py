from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo

SaveModel = Callable[..., Path]


def test_inputs_and_outputs_are_the_models(save_model: SaveModel) -> None:
    path = save_model([helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1])])
    imported = import_onnx(path)
    assert imported.inputs == (TensorInfo("x", (1, 3, 8, 8), "float32"),)
    assert imported.outputs == (TensorInfo("y", (1, 8, 8, 3), "float32"),)


def test_weights_in_other_files_are_read(save_model: SaveModel, tmp_path: Path) -> None:
    path = save_model([helper.make_node("Add", ["x", "w"], ["y"])], {"w": np.ones((1, 3, 8, 8), "float32")})
    model = onnx.load(path)
    (tmp_path / "external").mkdir()
    outside = tmp_path / "external" / "net.onnx"
    onnx.save(model, str(outside), save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert import_onnx(outside).outputs == (TensorInfo("y", (1, 3, 8, 8), "float32"),)


def test_a_dynamic_input_is_named(save_model: SaveModel) -> None:
    path = save_model([helper.make_node("Relu", ["x"], ["y"])], shape=("N", 3, 8, 8))
    with pytest.raises(TvmbuildError) as caught:
        import_onnx(path)
    assert caught.value.message == "net.onnx: the input 'x' has the dynamic shape ['N', 3, 8, 8]"
    assert caught.value.hint == "fix it in models.yaml, under inputs: x: shape"


def test_an_operator_that_tvm_lacks_is_named(save_model: SaveModel) -> None:
    path = save_model([helper.make_node("StringNormalizer", ["x"], ["y"])])
    with pytest.raises(TvmbuildError, match=r"net\.onnx: .*StringNormalizer"):
        import_onnx(path)


def test_a_node_that_the_importer_fails_on_is_named(save_model: SaveModel) -> None:
    path = save_model([helper.make_node("EyeLike", ["x"], ["y"], name="/head/eye", dtype=7)], shape=(4, 4))
    with pytest.raises(TvmbuildError) as caught:
        import_onnx(path)
    assert caught.value.message == (
        "net.onnx: TVM cannot import the operator EyeLike (node '/head/eye'): "
        "ValueError: dtype mismatch between input (float32) and attribute (7)"
    )


def test_a_file_that_is_no_onnx_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(TvmbuildError, match=r"net\.onnx: cannot be read as ONNX"):
        import_onnx(path)
