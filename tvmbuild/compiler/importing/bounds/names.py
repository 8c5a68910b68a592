"""The names of our own operators that find elements or boxes."""

from __future__ import annotations

POSITIONS = "TruePositions"
"""Our own operator: the positions of a vector's true elements, zeros behind them, and their number."""
SUPPRESSION = "Suppression"
"""Our own operator: for each batch and class, the boxes that non-maximum suppression keeps, and their number."""
