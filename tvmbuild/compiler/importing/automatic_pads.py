"""The padding of pooling windows by ``auto_pad``: one output for each stride that begins in the data."""

from __future__ import annotations

from collections.abc import Sequence

_RULES = ("SAME_UPPER", "SAME_LOWER")


def find_same_pads(
    rule: str, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int] | None:
    """Return ONNX's ``pads`` (all begins, then all ends) for SAME_UPPER or SAME_LOWER; None for other rules.

    There is just enough padding for the last window; an odd element goes to the end or to the beginning.
    """
    if rule not in _RULES:
        return None
    needed = [
        max(0, (-(-size // stride) - 1) * stride + (width - 1) * apart + 1 - size)
        for size, width, stride, apart in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    before = [pads // 2 if rule == "SAME_UPPER" else -(-pads // 2) for pads in needed]
    return [*before, *(pads - first for pads, first in zip(needed, before, strict=True))]
