"""A frame that is drawn, the same each time, for the comparison and the timing."""

from __future__ import annotations

import numpy as np

from tvmbuild.base.frame_specs import Frame

SEED = 0
_NOISE = 48
"""The largest change of a byte by noise."""
_TILES = 6
"""The tiles of the chequered pattern along the shorter side."""


def draw_frame(frame: Frame) -> np.ndarray:
    """Return the bytes of a frame: slopes and tiles that differ by channel, and noise.

    The slopes and tiles are left when a frame becomes much smaller, so that exchanged colours show; the noise shows a
    frame that is moved by a pixel.
    """
    random = np.random.RandomState(SEED)
    rows, columns = frame.shape[:2]
    channels = frame.shape[2] if len(frame.shape) == 3 else 1
    y, x = np.linspace(0, 1, rows)[:, None], np.linspace(0, 1, columns)[None, :]
    slopes = (x + 0 * y, y + 0 * x, (1 - x) * (1 - y), (x + 1 - y) / 2)
    side = max(1, min(rows, columns) // _TILES)
    tiles = np.arange(rows)[:, None] // side + np.arange(columns)[None, :] // side
    planes = [40 + 130 * slopes[channel] + 45 * ((tiles + channel) % 2) for channel in range(channels)]
    drawn = np.stack(planes, axis=-1) + random.randint(-_NOISE, _NOISE + 1, (rows, columns, channels))
    return np.ascontiguousarray(np.clip(np.rint(drawn), 0, 255).astype(np.uint8).reshape(frame.shape))
