"""The convolutions that use Winograd's algorithm without a measurement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.device_specs import NoDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.compiler.passes.winograd.apply_winograd import Convolution, choose_algorithm
from tvmbuild.records.task_file import ResolvedTarget
from tvmbuild.tuning.extract import Extracted, extract
from tvmbuild.tuning.job import Job

pytestmark = pytest.mark.compiler

TIMED = {
    (40, 16, 16): "winograd4",
    (80, 16, 32): "winograd4",
    (160, 32, 64): "winograd4",
    (40, 128, 128): "winograd4",
    (10, 128, 128): "winograd2",
    (13, 128, 128): "winograd2",
    (26, 256, 256): "winograd2",
    (20, 256, 256): "winograd2",
    (13, 256, 512): "direct",
    (13, 512, 512): "direct",
}
"""The fastest algorithm by rows, input channels and output channels, timed on AVX2.

A nearly fastest one with far smaller weights counts as the fastest.
"""


def choose(shape: tuple[int, int, int], cpu: str, images: int = 1) -> str:
    rows, inputs, outputs = shape
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "mtriple": "x86_64-linux-gnu", "num-cores": 2})
    return choose_algorithm(Convolution((images, rows, rows, inputs), outputs, (1, 1, 1, 1)), target)


@pytest.mark.parametrize("shape", TIMED, ids=str)
def test_what_was_timed(shape: tuple[int, int, int]) -> None:
    assert choose(shape, "x86-64-v3") == TIMED[shape]


def test_wide_vectors_want_more_channels() -> None:
    assert choose((40, 16, 16), "x86-64-v4") == "direct"
    assert choose((40, 64, 64), "x86-64-v4") == "winograd4"
    assert choose((40, 64, 72), "x86-64-v4") == "winograd4"
    assert choose((40, 32, 36), "x86-64-v4") == "direct"  # the last ones fill a quarter of a vector


def test_several_pictures_share_the_weights() -> None:
    assert choose((13, 512, 512), "x86-64-v3", images=16) == "winograd2"


def write_model(path: Path) -> Path:
    weights = np.random.RandomState(0).uniform(-1, 1, (32, 32, 3, 3)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 32, 20, 20))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def extract_for(folder: Path, options: TuneOptions, mcpu: str = "x86-64-v3") -> Extracted:
    target = ResolvedTarget(
        "llvm", FrozenMap({"mcpu": mcpu, "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap()
    )
    job = Job("net", "pc", target, NoDevice(), options, Layout(folder))
    return extract(job, write_model(folder / "net.onnx"))


def test_a_device_that_cannot_be_asked_gets_what_the_rule_says(tmp_path: Path) -> None:
    extracted = extract_for(tmp_path, TuneOptions())
    assert extracted.graph is not None
    assert dict(extracted.algorithms) == dict.fromkeys(extracted.graph.convolutions, "winograd4")
    assert [task.name for task in extracted.tasks if "winograd" in task.name]


def test_what_is_not_allowed_is_computed_directly(tmp_path: Path) -> None:
    extracted = extract_for(tmp_path, TuneOptions(algorithms=("direct", "winograd2")))
    assert not extracted.algorithms
    assert not [task.name for task in extracted.tasks if "winograd" in task.name]
