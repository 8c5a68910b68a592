"""The converter of Resize; if TVM computes another function, we resize one axis after another by weighted sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tvm import relax, te, tirx

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.errors import TvmbuildError

_NARROW = 32
"""The number of channels below which a pixel of a picture in NHWC makes few whole vectors. From 32 by 32 to 256 by 256,
21 maps take 1.95 ms by TVM's operator, and 0.86 ms one axis after another (Zen 5, one thread)."""
_MUCH = 4
"""The growth of each side that marks a network's last maps, if they are few: within networks it is 2."""
_PICTURE = 4
_RANKS_OF_TVM = (3, 4, 5)
_COORDINATES_OF_TVM = frozenset(
    {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_crop_and_resize"}
)
_PASSED_ON = (
    "antialias",
    "coordinate_transformation_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "mode",
    "nearest_mode",
)


@dataclass(frozen=True)
class _Axis:
    """The resizing of one axis of the data: the axis's number, its old and new size, and the scale."""

    number: int
    size: int
    wanted: int
    scale: float

    @property
    def is_exact(self) -> bool:
        """Return whether the scale is the ratio of the sizes; TVM knows only the sizes."""
        return abs(self.size * self.scale - self.wanted) < 1e-6 * self.wanted


def convert_resize(call: NodeCall) -> relax.Expr:
    """Convert Resize with TVM's operator if it computes what ONNX defines, else with the weights of ONNX's reference.

    Raises TvmbuildError for forms that neither way supports.
    """
    _leave_out_empty_inputs(call)
    axes = _find_axes(call)
    if axes is None:
        return call.by_tvm()
    if _keeps_all(call, axes):
        return call.data
    if _suits_tvm(call, axes):
        # We pass sizes, because TVM rounds the product of a size and a scale differently from ONNX Runtime.
        call.inputs[2:] = [None, constant(np.array([axis.wanted for axis in axes], dtype=np.int64))]
        return call.by_tvm()
    if call.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        raise TvmbuildError("`tf_crop_and_resize` is supported for pictures with equal scales and sizes only")
    if "float" not in call.dtype and call.text("mode", "nearest") != "nearest":
        raise TvmbuildError(f"interpolating {call.dtype} in this way is not supported", "cast to float32 before it")
    data = call.data
    for axis in axes:
        weights = _reference_weights(call, axis)
        if axis.size != axis.wanted or not np.array_equal(weights, np.eye(axis.size)):
            data = call.builder.normalize(_apply(call, data, axis.number, weights))
    return data


def _leave_out_empty_inputs(call: NodeCall) -> None:
    """Replace empty input tensors by None.

    Up to opset 12, an empty tensor stands for an input that is left out, but TVM reads it as a value.
    """
    for index in range(1, len(call.inputs)):
        values = call.values(index)
        if values is not None and values.size == 0:
            call.inputs[index] = None


def _find_axes(call: NodeCall) -> list[_Axis] | None:
    """Return the resizing of each axis of the data, or None if it depends on data."""
    shape = call.shape
    if len(call.inputs) == 2:
        return None
    scales, sizes = (call.values(index) if len(call.inputs) > index else None for index in (2, 3))
    numbers = [int(axis) % len(shape) for axis in call.attributes.get("axes", range(len(shape)))]
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if scales is not None:
        found = {n: (int(np.float32(shape[n]) * np.float32(s)), float(s)) for n, s in zip(numbers, scales, strict=True)}
    elif sizes is None:
        return None
    elif policy == "stretch":
        found = {n: (int(size), int(size) / shape[n]) for n, size in zip(numbers, sizes, strict=True)}
    else:
        choose = min if policy == "not_larger" else max
        scale = choose(int(size) / shape[n] for n, size in zip(numbers, sizes, strict=True))
        found = {n: (int(np.floor(shape[n] * scale + 0.5)), scale) for n in numbers}
    return [_Axis(n, size, *found.get(n, (size, 1.0))) for n, size in enumerate(shape)]


def _keeps_all(call: NodeCall, axes: Sequence[_Axis]) -> bool:
    """Return whether each new element is an old one; a region of interest may lie elsewhere."""
    whole = call.text("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize"
    return whole and all(axis.size == axis.wanted and axis.is_exact for axis in axes)


def _suits_tvm(call: NodeCall, axes: Sequence[_Axis]) -> bool:
    """Return whether to use TVM's operator, which keeps the layout of convolutions.

    Maps of few channels, as those of classes at the end of a network, are interpolated faster one axis after another.
    """
    return (
        not _is_last_map(call, axes)
        and "axes" not in call.attributes
        and call.text("keep_aspect_ratio_policy", "stretch") == "stretch"  # PyTorch's newer exporter writes the default
        and len(axes) in _RANKS_OF_TVM
        and all(axis.size == axis.wanted for axis in axes[:2])
        and all(axis.is_exact for axis in axes)
        and not call.attributes.get("antialias", 0)
        and call.text("coordinate_transformation_mode", "half_pixel") in _COORDINATES_OF_TVM
        and not (_aligns_corners(call) and any(axis.wanted == 1 for axis in axes[2:]))  # TVM divides by wanted - 1
    )


def _aligns_corners(call: NodeCall) -> bool:
    return call.text("coordinate_transformation_mode", "half_pixel") == "align_corners"


def _is_last_map(call: NodeCall, axes: Sequence[_Axis]) -> bool:
    """Return whether a few maps become much larger, as at the end of a network: no convolution takes such a result."""
    coordinates = call.text("coordinate_transformation_mode", "half_pixel")
    is_linear = call.text("mode", "nearest") == "linear" and coordinates != "tf_crop_and_resize"
    is_narrow = len(axes) == _PICTURE and axes[1].size < _NARROW and "float" in call.dtype
    return is_linear and is_narrow and all(axis.wanted >= _MUCH * axis.size for axis in axes[2:])


def _reference_weights(call: NodeCall, axis: _Axis) -> np.ndarray[Any, Any]:
    """Return the weight of each old element in each new element, [wanted, size], from onnx's reference evaluator."""
    names = ("x", "roi", "scales", "sizes")
    is_by_pytorch = call.text("coordinate_transformation_mode", "half_pixel") == "pytorch_half_pixel"
    if axis.wanted == 1 and is_by_pytorch and not call.attributes.get("antialias", 0):
        return np.eye(1, axis.size, dtype=np.float32)  # as ONNX Runtime; versions of the reference differ
    # The reference aligns the corners of a length that is not whole; ONNX Runtime and PyTorch align those of the size.
    by_scale = not np.isclose(axis.wanted / axis.size, axis.scale) and not _aligns_corners(call)
    given = ["x", "", "scales"] if by_scale else ["x", "", "", "sizes"]
    attributes = {name: call.attributes[name] for name in _PASSED_ON if name in call.attributes}
    node = helper.make_node("Resize", given, ["y"], **attributes)
    types = [helper.make_tensor_value_info(name, 1, None) for name in names if name in given]
    graph = helper.make_graph([node], "axis", types, [helper.make_tensor_value_info("y", 1, None)])
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]))
    feed: dict[str, np.ndarray[Any, Any]] = {"x": np.eye(axis.size, dtype=np.float32)}
    if by_scale:
        feed["scales"] = np.array([axis.scale, 1], dtype=np.float32)
    else:
        feed["sizes"] = np.array([axis.wanted, axis.size], dtype=np.int64)
    weights: np.ndarray[Any, Any] = evaluator.run(None, feed)[0]
    if weights.shape != (axis.wanted, axis.size):
        raise TvmbuildError(
            f"the sizes {axis.wanted} and {weights.shape[0]} of axis {axis.number} contradict each other"
        )
    return weights


def _apply(call: NodeCall, data: relax.Expr, axis: int, weights: np.ndarray[Any, Any]) -> relax.Expr:
    taps = max(1, int(np.count_nonzero(weights, axis=1).max()))
    # The elements with a weight come first; the rest have the weight 0.
    order = np.argsort(weights == 0, axis=1, kind="stable")[:, :taps]
    factors = np.take_along_axis(weights, order, axis=1)
    if taps == 1 and np.all(factors == 1):
        return relax.op.take(data, constant(order[:, 0].astype(np.int64)), axis=axis)
    return call.builder.emit_te(
        _interpolate,
        data,
        constant(np.ascontiguousarray(order.T.astype(np.int32))),
        constant(np.ascontiguousarray(factors.T.astype(call.dtype))),
        axis,
        primfunc_name_hint="interpolate",
    )


def _interpolate(data: te.Tensor, indices: te.Tensor, factors: te.Tensor, axis: int) -> te.Tensor:
    """Return weighted sums of a few elements along the axis; the indices and factors have the shape [taps, wanted]."""
    tap = te.reduce_axis((0, indices.shape[0]), name="tap")
    last = tirx.IntImm("int32", int(data.shape[axis]) - 1)

    def element(*at: Any) -> Any:
        # The index is clamped because a Task is measured with random indices.
        index = tirx.max(tirx.min(indices[tap, at[axis]], last), tirx.IntImm("int32", 0))
        place = (*at[:axis], index, *at[axis + 1 :])
        return te.sum(data[place] * factors[tap, at[axis]], axis=tap)

    shape = [*data.shape[:axis], indices.shape[1], *data.shape[axis + 1 :]]
    return te.compute(shape, element, name="interpolate")
