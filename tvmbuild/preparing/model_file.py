"""A model's file of any format, read as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvmbuild.base.file_kinds import is_exported_program
from tvmbuild.preparing.onnx_graph import load_model
from tvmbuild.preparing.pt2.convert import convert_pt2
from tvmbuild.preparing.tflite.convert import convert_tflite
from tvmbuild.preparing.tflite.reader import is_tflite


def read_model(path: Path, model: str) -> Any:
    """Return the ModelProto of an ONNX file, or of a .tflite or .pt2; messages call it ``model``.

    A .pt2 must have that suffix, because loading one may run its code; a file of another name must not cause that.
    """
    if is_tflite(path):
        return convert_tflite(path, model)
    is_program = path.suffix == ".pt2" and is_exported_program(path)
    return convert_pt2(path, model) if is_program else load_model(path, model)
