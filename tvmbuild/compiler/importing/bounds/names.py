"""The names of our own operators that find elements or boxes, and of the mark of places that need no check."""

from __future__ import annotations

POSITIONS = "TruePositions"
"""Our own operator: the positions of a vector's true elements, zeros behind them, and their number."""
SUPPRESSION = "Suppression"
"""Our own operator: for each batch and class, the boxes that non-maximum suppression keeps, and their number."""
INSIDE = "tvmbuild.inside"
"""The mark, an attribute of Gather: no index is negative, and one behind the end, of padding, may read anything."""
