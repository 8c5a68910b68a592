"""Which algorithm computes a convolution whose ways were not measured: an estimate of each one's time over the direct.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, count the multiplications. What transforms
take beside them was fitted to 25 shapes, timed by rule on a CPU with AVX2 (docs/notebook/by-hand.md), and agrees with
what searches with AVX-512 found.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm

from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.passes.winograd.apply_winograd import TILES, Convolution

DIRECT = "direct"
WORTH = 0.82
"""An estimate above this is no reason to make weights larger and sums less exact."""
TRANSFORMING: Mapping[str, float] = {"winograd2": 3.5, "winograd4": 5.0}
"""What transforming a pixel in a vector of channels takes, in multiply-adds of vectors, for each lane of full ones:
loads and stores bind it, which wider vectors do not make faster as they do products."""
READING: Mapping[str, int] = {"winograd2": 16 << 10, "winograd4": 8 << 10}
"""Bytes of transformed weights for each pixel of the output; with more, reading them takes what the products save."""


def choose_algorithm(convolution: Convolution, target: tvm.target.Target) -> str:
    """Return the algorithm with the lowest estimate, `direct` where none is worth it."""
    estimates = {name: _estimate(convolution, name, target) for name in TILES}
    best = min(estimates, key=lambda name: estimates[name])
    return best if estimates[best] <= WORTH else DIRECT


def _estimate(convolution: Convolution, algorithm: str, target: tvm.target.Target) -> float:
    """Return the algorithm's time over that of the direct sum; infinity where its weights are too large."""
    images, rows, columns, inputs = convolution.shape
    top, left, bottom, right = convolution.padding
    rows, columns, outputs = rows + top + bottom - 2, columns + left + right - 2, convolution.channels
    m = TILES[algorithm]
    window, products = (m + 2) ** 2, inputs * outputs
    if 4 * window * products > READING[algorithm] * images * rows * columns:
        return float("inf")
    computed = -(-rows // m) * -(-columns // m) * m * m / (rows * columns)  # the last tiles reach beyond the picture
    full = describe_machine(target).lanes(32)
    lanes = convolution.tile(algorithm, target).lanes  # fewer where channels fill no vector
    vectors = inputs / lanes[0] + outputs / lanes[1]
    return computed * (window / (m * m) * products + TRANSFORMING[algorithm] * full * full * vectors) / (9 * products)
