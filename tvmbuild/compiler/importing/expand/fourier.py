"""Expansion of DFT and STFT, the first operators of audio networks, to a product with a constant matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of
from tvmbuild.compiler.importing.refusals import refuse

_AXIS_AS_INPUT = 20
MAX_PRODUCTS = 1 << 22
"""The largest number of samples times frequencies: 2,048 of each give a matrix of at most 64 MB."""


def fourier_transform(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand DFT; return None if its length, axis or shape are unknown.

    A one-sided inverse gives real numbers, like NumPy's and PyTorch's `irfft`.
    Raises NodeError if the matrix would be too large or empty, or if a one-sided inverse has more or fewer frequencies
    than half of its length: what ONNX Runtime computes then is not `irfft`.
    """
    attributes, shape = attributes_of(node), scope.shape(node.input[0])
    length = _integer(node, 1, scope)
    if scope.opset >= _AXIS_AS_INPUT:
        axis = -2 if len(node.input) < 3 or not node.input[2] else _integer(node, 2, scope)
    else:
        axis = attributes.get("axis", 1)
    inverse, half = bool(attributes.get("inverse", 0)), bool(attributes.get("onesided", 0))
    is_open = length is None and len(node.input) > 1 and bool(node.input[1])
    if shape is None or axis is None or is_open:
        return None
    axis %= len(shape)
    given = shape[axis]
    if length is None:
        length = 2 * (given - 1) if inverse and half else given
    _check_size(node, given, length)
    if inverse and half:
        matrix = _make_real_inverse(node, given, length)
    else:
        matrix = _make_matrix(given, length, inverse=inverse, half=half)
    composer = Composer(scope, node.name or "DFT")
    # The axis moves before the last one, which holds real and imaginary parts, and back afterwards.
    others = [each for each in range(len(shape) - 1) if each != axis]
    order = [*others, axis, len(shape) - 1]
    moved = composer.add("Transpose", node.input[0], perm=order)
    outer = [shape[each] for each in others]
    result = _multiply(composer, (moved, node.input[0]), [*outer, shape[axis], shape[-1]], matrix)
    composer.name(composer.add("Transpose", result, perm=np.argsort(order).tolist()), node.output[0])
    return composer.nodes


def short_time_fourier_transform(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand STFT; return None if its step, length or the signal's shape are unknown.

    Raises NodeError if the matrix would be too large or empty, or if the step is below 1.
    """
    shape, step, length = scope.shape(node.input[0]), _integer(node, 1, scope), _integer(node, 3, scope)
    has_window = len(node.input) > 2 and bool(node.input[2])
    if length is None and has_window:
        window = scope.shape(node.input[2])
        length = None if window is None else window[0]
    if shape is None or step is None or length is None:
        return None
    if step < 1:
        raise refuse(node, f"its frames are {step} samples apart", "give it a frame_step of at least 1")
    batch, samples, parts = (*shape, 1)[:3]
    _check_size(node, length, length)
    matrix = _make_matrix(length, length, inverse=False, half=bool(attributes_of(node).get("onesided", 1)))
    composer = Composer(scope, node.name or "STFT")
    starts = np.arange((samples - length) // step + 1, dtype=np.int64) * step
    frames = composer.add(
        "Gather", node.input[0], composer.constant(starts[:, None] + np.arange(length, dtype=np.int64)), axis=1
    )
    if has_window:
        weights = composer.add("Reshape", node.input[2], composer.constant(np.array([-1, *[1] * (len(shape) - 2)])))
        frames = composer.add("Mul", frames, weights)
    form = [batch, len(starts), length, parts]
    composer.name(_multiply(composer, (frames, node.input[0]), form, matrix), node.output[0])
    return composer.nodes


def _integer(node: onnx.NodeProto, index: int, scope: Scope) -> int | None:
    known = scope.constant(node.input[index]) if index < len(node.input) and node.input[index] else None
    return None if known is None else int(known.reshape(()))


def _check_size(node: onnx.NodeProto, samples: int, frequencies: int) -> None:
    if frequencies < 1:
        raise refuse(node, f"its length is {frequencies}", "give it a length of at least 1 as an input")
    if samples * frequencies > MAX_PRODUCTS:
        remedy = f"transform pieces of {math.isqrt(MAX_PRODUCTS)}"
        raise refuse(node, f"it transforms {samples} samples, too many for a matrix", remedy)


def _make_matrix(given: int, length: int, *, inverse: bool, half: bool) -> np.ndarray:
    """Return the matrix by which the real and imaginary parts of ``given`` samples are multiplied.

    Its axes are samples, their parts, frequencies, their parts. Samples beyond ``length`` are ignored.
    """
    angles = (2 if inverse else -2) * np.pi / length * (np.outer(np.arange(given), np.arange(length)) % length)
    real, imaginary = np.cos(angles), np.sin(angles)
    matrix = np.stack([np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)], 1)
    matrix[length:] = 0
    return matrix[:, :, : length // 2 + 1] if half else matrix / (length if inverse else 1)


def _make_real_inverse(node: onnx.NodeProto, given: int, length: int) -> np.ndarray:
    """Return the matrix that makes ``length`` real numbers of the first half of their transform.

    Its axes are frequencies, their parts, samples, and the samples' one part. Each frequency stands for two conjugates,
    except the lowest one and that at the half of an even length.
    """
    if given != length // 2 + 1:
        remedy = f"slice or pad the axis to {length // 2 + 1} elements first"
        raise refuse(node, f"its axis has {given} elements for {length} samples", remedy)
    matrix = _make_matrix(given, length, inverse=True, half=False)[..., :1]
    matrix[1 : (length + 1) // 2] *= 2
    return matrix


def _multiply(composer: Composer, samples: tuple[str, str], form: Sequence[int], matrix: np.ndarray) -> str:
    """Multiply the samples by the matrix: [outer axes, samples, parts] become [outer axes, frequencies, their parts].

    ``samples`` are two names: of the value, whose shape is ``form``, and of a value of the same type that the scope
    knows.
    """
    (value, like), (*outer, _, parts) = samples, form
    dtype = helper.tensor_dtype_to_np_dtype(composer.scope.element_type(like) or onnx.TensorProto.FLOAT)
    weights = matrix[:, :parts].reshape(len(matrix) * parts, -1).astype(dtype)
    flat = composer.constant(np.array([math.prod(outer), len(weights)], dtype=np.int64))
    product = composer.add("MatMul", composer.add("Reshape", value, flat), composer.constant(weights))
    return composer.add("Reshape", product, composer.constant(np.array([*outer, *matrix.shape[2:]], dtype=np.int64)))
