"""Networks quantised as users of onnxruntime.quantization have them: dynamically, or in integer operators."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
    shape_inference,
)

SAMPLES = 8


class _Pictures(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        random = np.random.default_rng(0)
        drawn = (random.uniform(-1, 1, shape).astype(np.float32) for _ in range(SAMPLES))
        self._samples: Iterator[dict[str, Any]] = iter([{name: each} for each in drawn])

    def get_next(self) -> dict[str, Any] | None:
        """Return the next sample's inputs."""
        return next(self._samples, None)


def make_dynamic(network: Path) -> onnx.ModelProto:
    """Return the network with products of int8 weights and data rounded at run time: MatMulInteger."""
    return _quantise(network, lambda before, after: quantize_dynamic(before, after, weight_type=QuantType.QInt8))


def make_operators(network: Path) -> onnx.ModelProto:
    """Return a network of one picture in the QOperator format: QLinearConv and similar operators."""
    (picture,) = onnx.load(network).graph.input
    shape = tuple(each.dim_value for each in picture.type.tensor_type.shape.dim)

    def quantise(before: Path, after: Path) -> None:
        quantize_static(
            before,
            after,
            _Pictures(picture.name, shape),
            quant_format=QuantFormat.QOperator,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )

    return _quantise(network, quantise)


def _quantise(network: Path, quantise: Any) -> onnx.ModelProto:
    logging.getLogger().setLevel(logging.ERROR)  # it warns of missing preparation, which is not needed here
    with tempfile.TemporaryDirectory() as name:
        before, after = Path(name, "before.onnx"), Path(name, "after.onnx")
        shape_inference.quant_pre_process(network, before, skip_symbolic_shape=True)
        quantise(before, after)
        return onnx.load(after)
