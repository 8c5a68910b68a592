from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import SimplifyOptions
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.engine.cache.use import CacheUse
from tvmbuild.engine.executor import HERE
from tvmbuild.engine.external_data import ENTRY, list_external_data
from tvmbuild.engine.step_run import run_step
from tvmbuild.errors import TvmbuildError


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


def write_hostile(folder: Path, location: str) -> Path:
    """Write the part of an ONNX file that holds this location."""
    length = len(location.encode())
    path = folder / "inner" / "net.onnx"
    path.parent.mkdir()
    path.write_bytes(ENTRY + bytes([length & 0x7F | 0x80, length >> 7]) + location.encode())
    (folder / "secret").write_text("elsewhere")
    return path


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("../secret", "outside its folder: '../secret'"),
        ("a/../../secret", "outside its folder: 'a/../../secret'"),
        ("/etc/passwd", "outside its folder: '/etc/passwd'"),
        ("w" * 300, f"that cannot be read: '{'w' * 57}…': {os.strerror(errno.ENAMETOOLONG)}"),
        ("w/" * 4000, f"that cannot be read: '{('w/' * 29)[:57]}…': {os.strerror(errno.ENAMETOOLONG)}"),
    ],
)
def test_hostile_locations_fail_the_step_with_a_message(tmp_path: Path, location: str, said: str) -> None:
    path = write_hostile(tmp_path, location)
    with pytest.raises(TvmbuildError) as caught:
        list_external_data(path)
    assert said in caught.value.message
    assert caught.value.hint
    options = SimplifyStep("net", Source("path", "inner/net.onnx"), (), SimplifyOptions())
    step = Step("simplify", "net", options, FrozenMap({"source": path}), root=tmp_path)
    failed = run_step(step, HERE, CacheUse())
    assert isinstance(failed, TvmbuildError)
    assert said in failed.message
    assert said in json.loads(Layout(tmp_path).failure(step.id).read_text())["message"]


def test_a_location_may_turn_back_inside_the_folder(tmp_path: Path) -> None:
    path = write_hostile(tmp_path, "a/../weights.bin")
    (path.parent / "a").mkdir()
    (path.parent / "weights.bin").write_bytes(b"w")
    assert list_external_data(path) == ["a/../weights.bin"]
