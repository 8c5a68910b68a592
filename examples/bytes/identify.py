"""The type of each file: `python identify.py PACKAGE.tar FILE …`.

The bytes are chosen as the Python package magika 1.0.3 does.
"""  # noqa: INP001 - a script

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import tvmbuild

BLOCK, PART, PADDING = 4096, 1024, 256
FEW = 8
"""The number of bytes below which the model can tell nothing."""
SURE = 0.5
STRICTER = {
    **dict.fromkeys(("crt", "handlebars", "ocaml", "r", "rst", "sql", "tsv", "zig"), 0.9),
    **dict.fromkeys(("ignorefile", "latex", "pascal"), 0.95),
    "markdown": 0.75,
}
"""The least probability of easily confused types."""


def read_features(path: Path) -> np.ndarray | None:
    """Return the file's first and last 1,024 bytes without white space around them; None if too few are left."""
    with path.open("rb") as stream:
        first = stream.read(BLOCK).lstrip()[:PART]
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - BLOCK))
        last = stream.read(BLOCK).rstrip()[-PART:]
    if len(first) < FEW:
        return None
    features = np.full((1, 2 * PART), PADDING, np.int32)
    features[0, : len(first)] = list(first)
    features[0, 2 * PART - len(last) :] = list(last)
    return features


def identify(session: tvmbuild.Session, path: Path) -> tuple[str, float]:
    """Return the file's type and its probability."""
    features = read_features(path)
    if features is None:
        return ("too short" if path.stat().st_size else "empty"), 1.0
    scores = session.run({"bytes": features})["target_label"][0]
    best = int(scores.argmax())
    label = session.metadata.labels[best]
    sure = scores[best] >= STRICTER.get(label, SURE)
    return (label if sure else f"perhaps {label}"), float(scores[best])


if __name__ == "__main__":
    with tvmbuild.load(sys.argv[1]) as opened:
        for name in sys.argv[2:]:
            kind, probability = identify(opened, Path(name))
            print(f"{name}: {kind} ({probability:.3f})")
