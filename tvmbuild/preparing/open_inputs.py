"""The inputs of a model whose shapes are open: a batch becomes 1, and the user is asked for the rest at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from tvmbuild.base.open_dimensions import Dim, Question, ask_for, list_open, settle
from tvmbuild.base.specs import InputSpec
from tvmbuild.errors import TvmbuildError


class OpenShapesError(TvmbuildError):
    """Sizes that only the user knows; ``question`` asks for all of them and proposes examples."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.message, question.hint)
        self.question = question


def take_batch(values: Sequence[Any], outputs: Sequence[Any], specs: Sequence[InputSpec], model: str) -> str | None:
    """Write the batch into inputs, ``values``, without a given shape (in place); return a note about it.

    ``outputs`` get it too if they have its name.
    """
    settled = settle(read_shapes(values), specs)
    asked = {spec.name for spec in specs if spec.shape}
    for value in values:
        if value.name not in asked and value.name in settled.shapes:
            for dim, size in zip(value.type.tensor_type.shape.dim, settled.shapes[value.name], strict=True):
                if isinstance(size, int) and dim.dim_value <= 0 and size > 0:
                    dim.dim_value = size
    for output in outputs:
        for dim in output.type.tensor_type.shape.dim:
            if dim.dim_param in settled.sizes:
                dim.dim_value = settled.sizes[dim.dim_param]
    return settled.describe(model)


def read_shapes(values: Sequence[Any]) -> dict[str, tuple[Dim, ...]]:
    """Return the shapes of inputs, ``values``, by their names. Inputs without a shape are left out."""
    return {value.name: _read_dims(value) for value in values if value.type.tensor_type.HasField("shape")}


def read_types(values: Sequence[Any]) -> dict[str, str]:
    """Return ONNX's name of each input's type in small letters, for example `int64`."""
    return {each.name: onnx.TensorProto.DataType.Name(each.type.tensor_type.elem_type).lower() for each in values}


def check_static(values: Sequence[Any], model: str) -> None:
    """Raise TvmbuildError for an input without a shape or elements, OpenShapesError for all open inputs together."""
    for value in values:
        if not value.type.tensor_type.HasField("shape"):
            raise TvmbuildError(
                f"{model}: the ONNX file gives no shape for the input {value.name}",
                f"add to {model} in models.yaml: `inputs: {{{value.name}: {{shape: [...]}}}}`",
            )
        dims = _read_dims(value)
        if 0 in dims:
            raise TvmbuildError(
                f"{model}: dimension {dims.index(0)} of the input {value.name} {show_shape(value)} is 0: "
                "it has no elements",
                "export the model with an input that has some",
            )
    shapes = {value.name: _read_dims(value) for value in values}
    if list_open(shapes):
        raise OpenShapesError(ask_for(shapes, model))


def show_shape(value: Any) -> str:
    """Return the shape in the ONNX file, as messages show it."""
    dims = value.type.tensor_type.shape.dim
    return "[" + ", ".join(d.dim_param or (str(d.dim_value) if d.HasField("dim_value") else "?") for d in dims) + "]"


def describe_input(value: Any) -> str:
    """Return a description, for example `data float32[N, 3, 224, 224]`."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return f"{value.name} {dtype}{show_shape(value)}"


def _read_dims(value: Any) -> tuple[Dim, ...]:
    return tuple(
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0  # -1 is any size
        else dim.dim_param or None
        for dim in value.type.tensor_type.shape.dim
    )
