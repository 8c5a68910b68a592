"""Weights in other files: links, as in Hugging Face's cache, and files that are not weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import SimplifyOptions
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.engine.step_inputs import locate_inputs, locate_known
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.onnx_graph import load_model

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 48\n"


def save(folder: Path, *, subgraph: bool = False) -> Path:
    """Write net.onnx, whose weights lie in net.onnx_data."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = numpy_helper.from_array(WEIGHTS, "w")
    shapes = {"x": [2, 3], "y": [2, 4]}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    if subgraph:
        branch = helper.make_graph([helper.make_node("Constant", [], ["c"], value=weights)], "then", [], [
            helper.make_tensor_value_info("c", TensorProto.FLOAT, [3, 4])])  # fmt: skip
        nodes = [
            helper.make_node("If", ["b"], ["w"], then_branch=branch, else_branch=branch),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
        ]
        initializers = [numpy_helper.from_array(np.array(1, np.bool_), "b")]
    else:
        nodes, initializers = [helper.make_node("MatMul", ["x", "w"], ["y"])], [weights]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "net.onnx", save_as_external_data=True, all_tensors_to_one_file=True,
              location="net.onnx_data", size_threshold=16, convert_attribute=True)  # fmt: skip
    return folder / "net.onnx"


def weights_of(path: Path) -> np.ndarray:
    return np.asarray(numpy_helper.to_array(load_model(path, "net").graph.initializer[0]))


def cache_of(folder: Path) -> Path:
    """Build the same as huggingface_hub: links to blobs with other names."""
    real = save(folder / "made").parent
    snapshot = folder / "models--org--net" / "snapshots" / "abc"
    blobs = folder / "models--org--net" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for index, name in enumerate(("net.onnx", "net.onnx_data")):
        (real / name).rename(blobs / str(index))
        (snapshot / name).symlink_to(Path("../../blobs", str(index)))
    return snapshot / "net.onnx"


def step_of(path: Path) -> Step[SimplifyStep]:
    options = SimplifyStep("net", Source("path", str(path)), (), SimplifyOptions())
    return Step("simplify", "net", options, inputs={"source": path}, root=path.parent)  # type: ignore[arg-type]


def test_links_to_blobs(tmp_path: Path) -> None:
    path = cache_of(tmp_path)
    np.testing.assert_array_equal(weights_of(path), WEIGHTS)
    assert locate_inputs(step_of(path))["external data net.onnx_data"] == path.parent / "net.onnx_data"


def test_a_link_to_the_model_alone(tmp_path: Path) -> None:
    path = tmp_path / "project" / "mine.onnx"
    path.parent.mkdir()
    path.symlink_to(cache_of(tmp_path))
    np.testing.assert_array_equal(weights_of(path), WEIGHTS)
    inputs = locate_inputs(step_of(path))
    assert inputs["external data net.onnx_data"].samefile(tmp_path / "models--org--net/blobs/1")
    assert locate_known(step_of(path), inputs) == inputs


def test_hard_links_and_plain_files(tmp_path: Path) -> None:
    path = save(tmp_path / "made")
    for name in ("net.onnx", "net.onnx_data"):
        (tmp_path / name).hardlink_to(path.with_name(name))
    np.testing.assert_array_equal(weights_of(tmp_path / "net.onnx"), WEIGHTS)
    np.testing.assert_array_equal(weights_of(path), WEIGHTS)


def test_weights_of_subgraphs(tmp_path: Path) -> None:
    path = save(tmp_path, subgraph=True)
    (node,) = (node for node in load_model(path, "net").graph.node if node.op_type == "If")
    for attribute in node.attribute:
        (constant,) = attribute.g.node
        np.testing.assert_array_equal(numpy_helper.to_array(constant.attribute[0].t), WEIGHTS)


@pytest.mark.parametrize(
    ("content", "said", "hint"),
    [
        (None, "there is no ", "copy its data files, complete, beside the ONNX file"),
        (b"", "is an empty file", "again"),
        (bytes(20), "is cut short: w lies at 0 to 48 of its 20 bytes", "whole"),
        (POINTER.encode(), "is a Git LFS pointer, not the file itself", "`git lfs pull --include net.onnx_data`"),
        (b"<!doctype html>" + bytes(100), "is an HTML page", "Download"),
        (b"\x1f\x8b\x08" + bytes(9), "is a file packed by gzip", "gunzip"),
    ],
)
def test_what_is_no_file_of_weights_is_named(tmp_path: Path, content: bytes | None, said: str, hint: str) -> None:
    path = save(tmp_path)
    data = tmp_path / "net.onnx_data"
    data.unlink()
    if content is not None:
        data.write_bytes(content)
    with pytest.raises(TvmbuildError) as caught:
        load_model(path, "net")
    assert caught.value.message.startswith(f"net: the external data of {path} cannot be read: ")
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "a/../../secret"])
def test_a_model_cannot_name_files_outside_its_folder(tmp_path: Path, location: str) -> None:
    path = save(tmp_path / "net")
    (tmp_path / "secret").write_bytes(WEIGHTS.tobytes())
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = location if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(TvmbuildError, match="names external data outside its folder"):
        load_model(path, "net")


@pytest.mark.parametrize(("key", "value"), [("offset", "-4"), ("length", "-1"), ("offset", "x"), ("length", "10" * 9)])
def test_places_that_are_none(tmp_path: Path, key: str, value: str) -> None:
    path = save(tmp_path)
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = value if entry.key == key else entry.value
    path.write_bytes(model.SerializeToString())
    with pytest.raises(TvmbuildError):
        load_model(path, "net")
