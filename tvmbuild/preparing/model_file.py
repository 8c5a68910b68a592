"""A model's file, whatever its format, as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvmbuild.preparing.onnx_graph import load_model
from tvmbuild.preparing.tflite.convert import convert_tflite
from tvmbuild.preparing.tflite.reader import is_tflite


def read_model(path: Path, model: str) -> Any:
    """Return the ModelProto of an ONNX file, or of a .tflite; messages call it ``model``."""
    return convert_tflite(path, model) if is_tflite(path) else load_model(path, model)
