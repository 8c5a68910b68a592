"""RoiAlign, drawn, against ONNX Runtime; in the mode `max` it is the largest product of a neighbour and its weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import TensorProto, helper
from vulkan_kernels import lavapipe

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import host_target, is_gpu
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
PLACES = st.floats(-12, 40, width=32).map(lambda value: round(value * 8) / 8)


@st.composite
def regions(draw: st.DrawFn) -> dict[str, Any]:
    """Attributes, and regions that may be points. ONNX Runtime refuses one whose second corner is before the first."""
    first, second = (draw(arrays(np.float32, (3, 2), elements=PLACES)) for _ in range(2))
    corners = np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)
    attributes = {
        "output_height": draw(st.integers(1, 3)),
        "output_width": draw(st.integers(1, 3)),
        "sampling_ratio": draw(st.sampled_from([0, 0, 1, 2, 3])),
        "spatial_scale": draw(st.sampled_from([1.0, 0.25])),
        "coordinate_transformation_mode": draw(st.sampled_from(["half_pixel", "output_half_pixel"])),
    }
    samples = draw(arrays(np.int64, len(corners), elements=st.integers(0, 1)))
    return {"corners": corners, "samples": samples, "attributes": attributes, "channels": draw(st.integers(1, 9))}


def check(drawn: dict[str, Any], mode: str, target: tvm.target.Target) -> None:
    picture = np.random.default_rng(0).uniform(-1, 1, (2, drawn["channels"], 7, 9)).astype(np.float32)
    feed = {"x": picture, "corners": drawn["corners"], "samples": drawn["samples"]}
    node = helper.make_node("RoiAlign", list(feed), ["y"], mode=mode, **drawn["attributes"])
    types = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("int64"): TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(name, types[each.dtype], each.shape) for name, each in feed.items()]
    graph = helper.make_graph([node], "net", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3  # it warns that the maximum of products is not the one of interpolated values
    want = onnxruntime.InferenceSession(model.SerializeToString(), quiet).run(None, feed)[0]
    imported = import_onnx(model.SerializeToString(), for_gpu=is_gpu(target))
    got = build_here(lower(imported, target), target)(feed)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(drawn=regions())
def test_maxima_of_drawn_regions(drawn: dict[str, Any]) -> None:
    check(drawn, "max", host_target(None))


@pytest.mark.vulkan
@settings(max_examples=10, deadline=None)
@given(drawn=regions(), mode=st.sampled_from(["avg", "max"]))
def test_drawn_regions_on_a_gpu(drawn: dict[str, Any], mode: str) -> None:
    """With a ratio of 0, the data say how many samples a region has."""
    check(drawn, mode, lavapipe())
