"""The networks of examples/ and benchmarks/networks that are here, or are made here, without a download.

Left out are downloads, and networks that PyTorch exports or ONNX Runtime calibrates, whose numbers depend on the
machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from dequantised import make as dequantise
from needs import SHARED
from network_files import find_inputs, find_network
from onnx import helper, numpy_helper

from tvmbuild.preparing.simplify import simplify

HERE = ("mobilenet_v2", "efficientnet_lite0", "silero_vad")
MADE = ("yoeo_random", "audio_encoder", "decoder_step", "decoder_step_onnx", "detector", "vit_tiny")
_SHARED: Mapping[str, str] = {
    **{name: name for name in ("magika", "mnist", "minilm_l6_int8", "nanodet_m", "ppocrv4_det", "yolox_nano")},
    "ultraface_slim320": "ultraface_slim320_sim",
    "yolov3_tiny": "yolov3_tiny_decoded",
    "yunet_n_320": "yunet_n_320",
}


def list_files() -> dict[str, bool]:
    """Return the networks, and whether each is here."""
    names = [*HERE, *MADE, *_SHARED, *_DERIVED]
    return {name: name not in _NEEDS or _NEEDS[name].is_file() for name in names}


def find_file(name: str) -> bytes:
    """Return the network as the stage simplify makes it."""
    with tempfile.TemporaryDirectory() as folder:
        if name in _DERIVED:
            path = Path(folder, "network.onnx")
            onnx.save(_DERIVED[name](), str(path))
        else:
            path = _NEEDS.get(name) or find_network(name)
        return simplify(path, find_inputs(name), name=name).model


def _quantise() -> onnx.ModelProto:
    """Return mobilenet_v2 with 8-bit weights and activations, in the QDQ form, with scales without a calibration."""
    model = onnx.load(find_network("mobilenet_v2"))
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    rounded, nodes, constants = dict[str, str](), list[onnx.NodeProto](), dict[str, np.ndarray]()

    def add(kind: str, name: str, *values: np.ndarray | str, **attributes: int) -> str:
        inputs = [each if isinstance(each, str) else f"{name}_{at}" for at, each in enumerate(values)]
        constants.update({f"{name}_{at}": each for at, each in enumerate(values) if not isinstance(each, str)})
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def round_value(value: str) -> str:
        if value not in rounded:
            steps = (np.float32(2**-4), np.uint8(128)) if "clip" not in value else (np.float32(6 / 255), np.uint8(0))
            made = [np.asarray(each) for each in steps]
            rounded[value] = add(
                "DequantizeLinear", f"{value}_d", add("QuantizeLinear", f"{value}_q", value, *made), *made
            )
        return rounded[value]

    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            node.input[0], weight = round_value(node.input[0]), weights[node.input[1]]
            scale = np.abs(weight).reshape(len(weight), -1).max(axis=1) / np.float32(127) + np.float32(2**-20)
            steps = np.rint(weight / scale.reshape(-1, *[1] * (weight.ndim - 1))).astype(np.int8)
            node.input[1] = add(
                "DequantizeLinear", f"{node.output[0]}_w", steps, scale, np.zeros(len(scale), np.int8), axis=0
            )
        elif node.op_type in ("Add", "GlobalAveragePool"):
            node.input[:] = [round_value(each) for each in node.input]
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return model


_DERIVED: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "minilm_l6": lambda: dequantise(_NEEDS["minilm_l6"]),
    "mobilenet_v2_int8": _quantise,
}
_NEEDS: Mapping[str, Path] = {
    **{name: SHARED / "models" / f"{file}.onnx" for name, file in _SHARED.items()},
    "minilm_l6": SHARED / "models" / "minilm_l6_int8.onnx",
}
