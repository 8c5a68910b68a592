from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model, import_onnx
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

SaveModel = Callable[..., Path]

INF, NAN = float("inf"), float("nan")


def run_both(path: Path, target: tvm.target.Target) -> tuple[np.ndarray, np.ndarray]:
    data = np.linspace(-9, 9, 192, dtype="float32").reshape(1, 3, 8, 8)
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    return build_here(lower(import_onnx(path), target), target)({"x": data})["y"], want


def count(mod: tvm.ir.IRModule, operator: str) -> int:
    return int(mod["main"].script().count(operator))


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 6.0), (None, 2.0), (-1.5, None), (None, None), (-INF, 3.0), (0.0, INF), (NAN, 1.0)]
)
def test_clip_with_inputs(save_model: SaveModel, cpu: tvm.target.Target, low: float | None, high: float | None) -> None:
    bounds = {"low": low, "high": high}
    weights = {name: np.array(value, "float32") for name, value in bounds.items() if value is not None}
    names = [name if name in weights else "" for name in bounds]
    path = save_model([helper.make_node("Clip", ["x", *names], ["c"]), helper.make_node("Neg", ["c"], ["y"])], weights)
    got, want = run_both(path, cpu)
    np.testing.assert_array_equal(got, want)


def test_clip_with_attributes(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    path = save_model([helper.make_node("Clip", ["x"], ["y"], min=-2.0, max=4.0)], opset=6)
    got, want = run_both(path, cpu)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("HardSigmoid", ["x"], ["y"], alpha=0.3, beta=0.4),
        helper.make_node("HardSwish", ["x"], ["y"]),
        helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.1),
        helper.make_node("LeakyRelu", ["x"], ["y"], alpha=1.5),
        helper.make_node("Max", ["x", "w", "v"], ["y"]),
        helper.make_node("Min", ["x", "w"], ["y"]),
    ],
    ids=lambda node: node.op_type,
)
def test_other_replaced_converters(save_model: SaveModel, cpu: tvm.target.Target, node: object) -> None:
    weights = {"w": np.array([[[1.0]], [[2.0]], [[-3.0]]], "float32"), "v": np.array(0.5, "float32")}
    got, want = run_both(save_model([node], weights), cpu)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_division_by_zero(save_model: SaveModel, cpu: tvm.target.Target, zero: float, shape: tuple[int, ...]) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Div", ["r", "zero"], ["y"])]
    weights = {"zero": np.full(shape, zero, "float32"), "w": np.eye(8, dtype="float32")}
    product = [helper.make_node("MatMul", ["x", "w"], ["r"]), nodes[1]]
    got, want = run_both(save_model(product, weights), cpu)
    np.testing.assert_array_equal(got, want)
    got, want = run_both(save_model(nodes, {"zero": weights["zero"]}), cpu)
    np.testing.assert_array_equal(got, want)
    assert np.isinf(got).any()
    assert np.isnan(got).any()


@pytest.mark.parametrize(("index", "axis"), [(1, 1), (-1, 2), ([2], 3), (0, 0), ([0, 2], 1)])
def test_gather(save_model: SaveModel, cpu: tvm.target.Target, index: int | list[int], axis: int) -> None:
    nodes = [helper.make_node("Gather", ["x", "i"], ["g"], axis=axis), helper.make_node("Neg", ["g"], ["y"])]
    path = save_model(nodes, {"i": np.array(index, "int64")})
    got, want = run_both(path, cpu)
    np.testing.assert_array_equal(got, want)
    names = [task.name for task in extract_tasks(lower(import_onnx(path), cpu))]
    assert any("take" in name for name in names) == (index == [0, 2])


def test_resize_with_empty_scales(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    weights = {"none": np.zeros(0, "float32"), "sizes": np.array([1, 3, 16, 16], "int64")}
    node = helper.make_node(
        "Resize", ["x", "none", "none", "sizes"], ["y"], mode="linear", coordinate_transformation_mode="asymmetric"
    )
    got, want = run_both(save_model([node], weights, opset=11), cpu)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


DEFAULTS = {
    "keep_aspect_ratio_policy": "stretch",
    "antialias": 0,
    "extrapolation_value": 0.0,
    "exclude_outside": 0,
    "cubic_coeff_a": -0.75,
}


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_resize_with_its_defaults_written_out_is_the_same(save_model: SaveModel, mode: str) -> None:
    """PyTorch's newer exporter writes them out; an own function would end the layout of convolutions."""
    weights, given = {"sizes": np.array([1, 40, 16, 16], "int64")}, ["x", "", "", "sizes"]
    nodes = [[helper.make_node("Resize", given, ["y"], mode=mode, **more)] for more in ({}, DEFAULTS)]
    texts = [import_onnx(save_model(each, weights, (1, 40, 8, 8), opset=18)).mod["main"].script() for each in nodes]
    assert texts[0] == texts[1]
    assert "image.resize2d" in texts[0]


@pytest.mark.parametrize(
    ("channels", "size", "operator"),
    [(21, 32, "interpolate"), (21, 16, "image.resize2d"), (40, 32, "image.resize2d")],
)
def test_last_maps_of_few_channels_are_resized_one_axis_after_another(
    save_model: SaveModel, channels: int, size: int, operator: str
) -> None:
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    weights = {"sizes": np.array([1, channels, size, size], "int64")}
    assert operator in import_onnx(save_model([node], weights, (1, channels, 8, 8), opset=18)).mod.script()


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_resize_to_the_same_size_is_nothing(save_model: SaveModel, mode: str) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Resize", ["a", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode="asymmetric"),
    ]
    mod = import_onnx(save_model(nodes, {"scales": np.ones(4, "float32")}, opset=18)).mod
    assert "resize" not in mod.script()
    assert "relu" in mod.script()


def test_clip_between_convolutions_costs_no_transpose(save_convnet: SaveModel, cpu: tvm.target.Target) -> None:
    lowered = lower(import_onnx(save_convnet()), cpu)
    assert lowered.layout == "NHWC"
    assert count(lowered.mod, "R.call_tir(") == 3  # convolution + clip, convolution, transpose out


def test_leaky_relu_between_convolutions_costs_no_transpose(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    weights = {"w": np.ones((16, 3, 3, 3), "float32"), "v": np.ones((16, 16, 1, 1), "float32")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.1),
        helper.make_node("Conv", ["b", "v"], ["y"]),
    ]
    names = [task.name for task in extract_tasks(lower(import_onnx(save_model(nodes, weights)), cpu))]
    assert [name for name in names if "multiply" in name] == ["conv2d_multiply_maximum"]
    assert sum("transpose" in name for name in names) == 1  # the output's; the first convolution reads NCHW


@pytest.mark.filterwarnings("ignore:Field 'shape'")
def test_upstream_still_needs_the_clip_workaround(save_convnet: SaveModel) -> None:
    imported = onnx_frontend.from_onnx(onnx.load(str(save_convnet())))
    assert count(imported, "R.call_tir(") == 2  # when this is 0, clipping.py can go


@pytest.mark.parametrize("other", [True, False, [[[True]], [[False]], [[True]]]])
def test_booleans_are_equal(save_model: SaveModel, cpu: tvm.target.Target, other: object) -> None:
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["positive"]),
        helper.make_node("Equal", ["positive", "other"], ["equal"]),
        helper.make_node("Where", ["equal", "x", "zero"], ["y"]),
    ]
    path = save_model(nodes, {"zero": np.array(0, "float32"), "other": np.array(other)})
    got, want = run_both(path, cpu)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "operator", ["Elu", "Selu", "ThresholdedRelu", "LeakyRelu", "HardSigmoid", "Clip", "Sinh", "Cosh"]
)
def test_other_floats(cpu: tvm.target.Target, operator: str, dtype: type) -> None:
    data: np.ndarray = np.linspace(-3, 3, 64).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [helper.make_tensor_value_info(name, kind, [64]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "net", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    (want,) = ReferenceEvaluator(model).run(None, {"x": data})
    got = build_here(lower(import_model(model, "net"), cpu), cpu)({"x": data})["y"]
    np.testing.assert_allclose(got, want, rtol=8 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("channels", [8, 24, 20])
def test_grouped_convolutions(save_model: SaveModel, cpu: tvm.target.Target, groups: int, channels: int) -> None:
    weights = {
        "w": np.random.default_rng(0).uniform(-1, 1, (8, 3, 1, 1)).astype(np.float32),
        "g": np.random.default_rng(1).uniform(-1, 1, (channels, 8 // groups, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Conv", ["a", "g"], ["b"], group=groups, strides=[2, 1], pads=[1, 2, 0, 1], dilations=[1, 2]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    got, want = run_both(save_model(nodes, weights), cpu)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def test_sums_and_unused_masks_between_convolutions_cost_no_transpose(
    save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    weights = {"w": np.ones((16, 3, 1, 1), "float32"), "v": np.ones((16, 16, 1, 1), "float32")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Dropout", ["a"], ["b", "mask"]),
        helper.make_node("Sum", ["a", "b", "a"], ["c"]),
        helper.make_node("Conv", ["c", "v"], ["y"]),
    ]
    lowered = lower(import_onnx(save_model(nodes, weights, opset=9)), cpu)
    assert (lowered.layout, lowered.notes) == ("NHWC", ())
    assert sum("transpose" in task.name for task in extract_tasks(lowered)) == 1  # the output's


def test_a_scale_that_is_a_little_less_than_it_says(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["r"], mode="linear")
    scales = {"s": np.array([1, 1, 0.7, 0.7], "float32")}
    pool = helper.make_node("GlobalAveragePool", ["r"], ["y"])
    path = save_model([node, pool], scales, shape=(1, 3, 10, 10))
    data = np.random.default_rng(0).uniform(-1, 1, (1, 3, 10, 10)).astype("float32")
    got = build_here(lower(import_onnx(path), cpu), cpu)({"x": data})["y"]
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_graph_that_tvm_cannot_lay_out_gets_transposes_around_its_convolutions(
    save_model: SaveModel, cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_layouts: dict[str, list[str]]) -> tvm.transform.Pass:
        raise ValueError("can't find S in source layout")

    monkeypatch.setattr(relax.transform, "ConvertLayout", fail)
    random = np.random.default_rng(0)
    weights = {
        name: random.uniform(-1, 1, (8, inputs, 3, 3)).astype("float32") for name, inputs in (("w", 3), ("v", 4))
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], dilations=[1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("AveragePool", ["c"], ["d"], kernel_shape=[2, 2], ceil_mode=1),
        helper.make_node("CumSum", ["d", "axis"], ["e"]),
        helper.make_node("Conv", ["e", "v"], ["f"], pads=[2, 2, 2, 2], dilations=[2, 2], group=2),
        helper.make_node("GlobalAveragePool", ["f"], ["y"]),
    ]
    path = save_model(nodes, weights | {"axis": np.array(1)})
    lowered = lower(import_onnx(path), cpu)
    assert lowered.layout == "NHWC"
    why = "ConvertLayout failed: can't find S in source layout"
    assert lowered.notes == (f"slow: transposes around its convolutions: {why}",)
    assert count(lowered.mod, "relax.call_tir") < 15
    got, want = run_both(path, cpu)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("size", [(2, 3), (1, 1)])
@pytest.mark.parametrize(
    "mode",
    [
        {"coordinate_transformation_mode": "half_pixel"},
        {"coordinate_transformation_mode": "output_half_pixel"},
        {},  # half_pixel since opset 16
    ],
)
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_of_scaled_pictures(
    save_model: SaveModel, cpu: tvm.target.Target, mode: dict[str, str], size: tuple[int, int], ratio: int
) -> None:
    """Half a pixel is one of the data, which have an eighth of the picture's."""
    rois = np.array([[3, 5, 40, 30], [-20, -9, 9, 70], [50, 50, 50.5, 51]], np.float32)
    node = helper.make_node(
        "RoiAlign",
        ["x", "rois", "samples"],
        ["y"],
        output_height=size[0],
        output_width=size[1],
        sampling_ratio=ratio,
        spatial_scale=0.125,
        **mode,
    )
    path = save_model([node], {"rois": rois, "samples": np.zeros(3, np.int64)}, opset=16)
    got, want = run_both(path, cpu)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_regions_share_their_samples_among_channels(save_model: SaveModel) -> None:
    node = helper.make_node("RoiAlign", ["x", "rois", "samples"], ["y"], output_height=2, output_width=2)
    path = save_model([node], {"rois": np.ones((3, 4), np.float32), "samples": np.zeros(3, np.int64)}, opset=16)
    imported = import_onnx(path).mod
    layouts: list[str] = []
    relax.analysis.post_order_visit(
        imported["main"],
        lambda each: layouts.append(str(each.attrs.layout)) if "roi_align" in str(getattr(each, "op", "")) else None,
    )
    assert layouts == ["NHWC"]


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("shape", [(1, 2, 1, 5), (1, 2, 4, 1), (1, 1, 1, 1)])
def test_grids_over_one_pixel_reflect(
    save_model: SaveModel, cpu: tvm.target.Target, mode: str, shape: tuple[int, ...]
) -> None:
    numbers = {
        "shape": np.array(shape),
        "first": np.array([0]),
        "last": np.array([np.prod(shape)]),
        "one": np.array([1]),
    }
    grid = np.random.default_rng(0).uniform(-3, 3, (1, 6, 4, 2)).astype(np.float32)
    nodes = [
        helper.make_node("Reshape", ["x", "all"], ["flat"]),
        helper.make_node("Slice", ["flat", "first", "last"], ["some"]),
        helper.make_node("Reshape", ["some", "shape"], ["picture"]),
        helper.make_node(
            "GridSample", ["picture", "grid"], ["y"], mode=mode, padding_mode="reflection", align_corners=1
        ),
    ]
    path = save_model(nodes, {**numbers, "all": np.array([-1]), "grid": grid}, opset=20)
    got, want = run_both(path, cpu)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("shape", [(2, 12, 2, 4), (1, 8, 1, 6), (1, 3, 5, 7)])
def test_grids_over_channels(
    save_model: SaveModel, cpu: tvm.target.Target, padding: str, aligned: int, shape: tuple[int, ...]
) -> None:
    """Many channels are innermost, with few of them the places are; some places are far outside."""
    count_, random = int(np.prod(shape)), np.random.default_rng(0)
    grid = random.uniform(-1.5, 1.5, (shape[0], 6, 4, 2)).astype(np.float32)
    grid[0, 0, :3] = np.array([[-1, 1], [1, -1], [1e4, -1e4]])
    weights = {"shape": np.array(shape), "grid": grid, "more": np.array([count_]), "flat": np.array([-1])}
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["all"]),
        helper.make_node("Slice", ["all", "zero", "more"], ["some"]),
        helper.make_node("Reshape", ["some", "shape"], ["picture"]),
        helper.make_node("GridSample", ["picture", "grid"], ["y"], padding_mode=padding, align_corners=aligned),
    ]
    path = save_model(nodes, weights | {"zero": np.array([0])}, opset=20)
    got, want = run_both(path, cpu)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_grids_over_many_channels_have_them_innermost(save_model: SaveModel) -> None:
    grid = {"grid": np.zeros((1, 6, 4, 2), np.float32)}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"])
    shapes = {
        channels: import_onnx(save_model([node], grid, (1, channels, 8, 8), opset=20)).mod.script()
        for channels in (4, 8)
    }
    assert "T.Buffer((T.int64(1), T.int64(6), T.int64(4), T.int64(8))" in shapes[8]
    assert "image.grid_sample" in shapes[4]


@pytest.mark.parametrize("operator", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceSum"])
def test_a_reduction_of_no_axes_keeps_its_function(
    save_model: SaveModel, cpu: tvm.target.Target, operator: str
) -> None:
    nodes = [
        helper.make_node("Abs" if "Log" in operator else "Neg", ["x"], ["a"]),
        helper.make_node(operator, ["a"], ["y"], noop_with_empty_axes=1),
    ]
    got, want = run_both(save_model(nodes, opset=18), cpu)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_one_row_by_a_scale_is_the_first(save_model: SaveModel, cpu: tvm.target.Target, mode: str) -> None:
    """8 rows times 0.13 are 1.04, which is one row."""
    node = helper.make_node(
        "Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode="pytorch_half_pixel"
    )
    got, want = run_both(save_model([node], {"scales": np.array([1, 1, 0.13, 0.7], np.float32)}, opset=18), cpu)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
