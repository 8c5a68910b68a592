"""The names of operators that find elements or boxes, ONNX's and our own, and of the mark of checked places."""

from __future__ import annotations

PRODUCERS = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""The operators whose number of results depends on the values of their inputs."""
POSITIONS = "TruePositions"
"""Our own operator: the positions of a vector's true elements, zeros after them, and their number."""
SUPPRESSION = "Suppression"
"""Our own operator: for each batch and class, the boxes that non-maximum suppression keeps, and their number."""
INSIDE = "tvmbuild.inside"
"""The mark, an attribute of Gather: no index is negative, and one after the end, of padding, may read anything."""
WRITTEN = "Written"
"""Our own operator: the same integers, written to memory, because TVM would repeat what computes them at each use."""
