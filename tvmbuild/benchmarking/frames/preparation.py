"""The reference of a prepared frame, in float64 by plain NumPy, and the comparison with a package's input.

It shares no code with the kernels: a resize is a product with matrices of weights from the filter's definition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmbuild.base.frame_specs import Frame, Interpolation
from tvmbuild.benchmarking.frames.way import Input
from tvmbuild.package.colors import read_colors

STEPS = 1.25
"""The largest difference of a byte from the reference, which is not rounded.

Pillow and OpenCV round after each of the two directions, by half a step each; OpenCV's weights have 11 bits only.
"""
_ROUNDINGS = 8.0
"""The largest difference between a value and its byte's value, in rounding steps of the input's type."""
_TINY = 1e-12


@dataclass(frozen=True)
class InputCheck:
    """The comparison of a prepared frame with the reference."""

    largest_steps: float
    """The largest difference, in steps of a byte."""
    problem: str | None
    """The first fault; None if all is within tolerance."""


def prepare(frame: Frame, data: np.ndarray, into: Input) -> np.ndarray:
    """Return the bytes [height, width, channels] of the input that is made from a frame.

    They are float64 and not rounded.
    """
    fit = into.find_fit(frame)
    pixels = read_colors(frame, data, into.rules.color)
    part = frame.used
    pixels = pixels[part.top : part.top + part.height, part.left : part.left + part.width]
    grows = fit.width > part.width or fit.height > part.height
    across = make_weights(frame.interpolation, part.width, fit.width, grows=grows)
    down = make_weights(frame.interpolation, part.height, fit.height, grows=grows)
    left, top = max(0, -fit.left), max(0, -fit.top)
    across = across[left : left + min(fit.width, into.width)]
    down = down[top : top + min(fit.height, into.height)]
    filled = np.full((into.height, into.width, into.channels), float(into.rules.fill))
    for channel in range(into.channels):
        resized = down @ (pixels[:, :, channel] @ across.T)
        y, x = max(0, fit.top), max(0, fit.left)
        filled[y : y + len(resized), x : x + resized.shape[1], channel] = resized
    return filled


def make_weights(interpolation: Interpolation, source: int, size: int, *, grows: bool = False) -> np.ndarray:
    """Return the matrix [size, source] that resizes a line of ``source`` pixels to ``size`` pixels.

    ``grows`` tells whether a side of the picture grows, for which OpenCV's INTER_AREA has another rule.
    """
    if interpolation == "area":
        return _make_areas(source, size, grows=grows)
    centers = (np.arange(size) + 0.5) * (source / size)
    places = np.arange(source) + 0.5
    if interpolation == "nearest":
        weights = np.zeros((size, source))
        nearest = np.minimum((np.arange(size) * (1 / (size / source))).astype(int), source - 1)  # OpenCV's rounding
        weights[np.arange(size), nearest] = 1
        return weights
    support = max(source / size, 1.0) if interpolation == "antialias" else 1.0
    if interpolation == "bilinear":
        centers = np.clip(centers, 0.5, source - 0.5)
    weights = np.maximum(0.0, 1.0 - np.abs(places[None, :] - centers[:, None]) / support)
    normalised: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return normalised


def _make_areas(source: int, size: int, *, grows: bool) -> np.ndarray:
    """Return the matrix of means over areas; where a side grows, of blends at the borders of pixels."""
    rows, places = np.arange(size)[:, None], np.arange(source)[None, :]
    if grows:
        first = np.floor(np.arange(size) * (1 / (size / source)))
        shares = np.float32(np.arange(size) + 1 - (first + 1) * (size / source))
        shares = np.where(shares <= 0, 0.0, shares - np.floor(shares))
        first = np.minimum(first, source - 1).astype(int)
        weights = np.zeros((size, source))
        weights[np.arange(size), first] += 1 - shares
        weights[np.arange(size), np.minimum(first + 1, source - 1)] += shares
        return weights
    scale = source / size
    covered = np.minimum((rows + 1) * scale, places + 1) - np.maximum(rows * scale, places)
    shares = np.maximum(covered, 0.0)
    normalised: np.ndarray = shares / shares.sum(axis=1, keepdims=True)
    return normalised


def compare_input(got: np.ndarray, want: np.ndarray, into: Input) -> InputCheck:
    """Compare an input with the bytes that it must have.

    Each value must be that of a byte, and this byte at most STEPS away from the reference.
    """
    rules = into.rules
    shape = (into.height, into.width, into.channels)
    values = got.reshape(into.tensor.shape).astype(np.float64)
    if rules.layout == "NCHW":
        values = values.reshape(into.channels, into.height, into.width).transpose(1, 2, 0)
    values = values.reshape(shape)
    mean, std = (np.array(each or (default,)) for each, default in ((rules.mean, 0.0), (rules.std, 1.0)))
    step = np.abs(rules.scale / std)
    exact = (want * rules.scale - mean) / std
    with np.errstate(invalid="ignore"):
        byte = np.clip(np.rint((values * std + mean) / rules.scale), 0, 255)
        nearest = (byte * rules.scale - mean) / std
    rounding = np.finfo(np.float32).eps * _ROUNDINGS * (np.abs(nearest) + np.abs(mean / std))
    dtype = np.dtype(into.tensor.dtype)
    if dtype.kind in "iu":
        exact, step, rounding = np.rint(exact), np.maximum(step, 1.0), rounding + 0.5
    elif dtype.itemsize < 4:
        rounding = rounding + np.finfo(dtype).eps * np.abs(nearest)
    return _judge(values, exact, np.abs(values - exact) / step, np.abs(values - nearest) <= rounding + _TINY)


def _judge(got: np.ndarray, exact: np.ndarray, steps: np.ndarray, is_byte: np.ndarray) -> InputCheck:
    wrong, reason = ~(steps <= STEPS), f"where {STEPS:g} is allowed"
    if not wrong.any():
        wrong, reason = ~is_byte, "and no byte has this value"
    largest = float(np.max(np.nan_to_num(steps, nan=np.inf)))
    if not wrong.any():
        return InputCheck(largest, None)
    worst = np.unravel_index(int(np.argmax(np.where(wrong, np.nan_to_num(steps, nan=np.inf), -1))), steps.shape)
    row, column, channel = (int(each) for each in worst)
    problem = (
        f"{int(wrong.sum())} of {wrong.size} elements are wrong, most at row {row}, column {column}, "
        f"channel {channel}: got {got[worst]:.7g}, want {exact[worst]:.7g}, "
        f"off by {steps[worst]:.3g} steps of a byte, {reason}"
    )
    return InputCheck(largest, problem)
