"""GPUs compute convolutions in NHWC where they read vectors of channels, or where tensor cores multiply them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper
from vulkan_devices import HOST, LEAST

from tvmbuild.base.attributes import Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.convolution_layout import default_layout
from tvmbuild.compiler.importing.importer import ImportedModel, import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower

SaveModel = Callable[..., Path]
Convolution = tuple[int, int, int]
"""The number of channels out, the window's size, and the number of groups."""


def card(arch: str) -> tvm.target.Target:
    return tvm_target("cuda", FrozenMap({"arch": arch}), FrozenMap({"mcpu": "x86-64-v3"}))


def convolve(save_model: SaveModel, convolutions: Sequence[Convolution], channels: int = 16) -> ImportedModel:
    """Import convolutions that follow each other, of 8 x 8 pixels."""
    nodes, weights, value = [], {}, "x"
    for at, (out, side, groups) in enumerate(convolutions):
        weights[f"w{at}"] = np.ones((out, channels // groups, side, side), "float32")
        result = "y" if at == len(convolutions) - 1 else f"c{at}"
        nodes.append(helper.make_node("Conv", [value, f"w{at}"], [result], pads=[side // 2] * 4, group=groups))
        value, channels = result, out
    return import_onnx(save_model(nodes, weights, (1, int(weights["w0"].shape[1]) * convolutions[0][2], 8, 8)))


@pytest.mark.parametrize(
    ("convolutions", "layout"),
    [
        ([(32, 3, 1)], "NHWC"),
        ([(24, 3, 1)], "NCHW"),  # too few columns for a tile
        ([(64, 1, 1)], "NCHW"),  # pixels of one channel are a vector too
        ([(32, 3, 16)], "NCHW"),  # grouped
        ([(32, 3, 1), (1024, 1, 1)], "NCHW"),  # 4,608 of 37,376 products of each pixel
        ([(32, 3, 1), (256, 1, 1)], "NHWC"),  # 4,608 of 12,800
    ],
)
def test_windows_over_many_channels_decide(
    save_model: SaveModel, convolutions: Sequence[Convolution], layout: str
) -> None:
    imported = convolve(save_model, convolutions)
    vulkan = tvm_target("vulkan", FrozenMap(sorted(LEAST.items())), HOST)
    assert [default_layout(target, imported) for target in (card("sm_90"), card("sm_61"), vulkan)] == [layout] * 3


@pytest.mark.parametrize(
    ("arch", "precision", "layout"),
    [("sm_90", "fp32", "NCHW"), ("sm_75", "fp16", "NHWC"), ("sm_61", "fp16", "NCHW")],
)
def test_tensor_cores_decide(save_model: SaveModel, arch: str, precision: Precision, layout: str) -> None:
    imported = convolve(save_model, [(64, 1, 1)])
    narrow = imported if precision == "fp32" else reduce_precision(imported, precision, "cuda")
    assert lower(narrow, card(arch)).layout == layout


def test_quantised_networks_stay_in_nchw_on_gpus(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["y"], pads=[1] * 4),
    ]
    weights = {"w": np.ones((16, 16, 3, 3), "float32"), "scale": np.float32(0.1), "zero": np.int8(0)}
    imported = import_onnx(save_model(nodes, {name: np.asarray(each) for name, each in weights.items()}, (1, 16, 8, 8)))
    assert (default_layout(card("sm_90"), imported), default_layout(cpu, imported)) == ("NCHW", "NHWC")
