"""Darknet's layers that decode boxes: yolo (v3 and v4) and region (v2)."""  # noqa: INP001

from __future__ import annotations

import numpy as np
from darknet_files import Section
from darknet_graph import Network, Value


def add_yolo(network: Network, section: Section) -> Value:
    """Decode boxes whose anchors are pixels of the picture, with its own probability for each class."""
    count, scale = section.number("num", 1), section.decimals("scale_x_y", "1")[0]
    mask = section.numbers("mask", ",".join(map(str, range(count))))
    anchors = _read_anchors(section)
    if not all(0 <= index < len(anchors) for index in mask):
        raise ValueError(f"{section.place}: mask={section.text('mask', '')} names an anchor that is not there")
    return _add_rows(network, section, anchors[mask], scale)


def add_region(network: Network, section: Section) -> Value:
    """Decode boxes whose anchors are cells, with the softmax of the classes if the section says so."""
    for key, known in (("coords", 4), ("background", 0)):
        if section.number(key, known) != known:
            raise ValueError(f"{section.place}: {key}={section.text(key)} is not known; known is {known}")
    source, picture, anchors = network.last, network.picture, _read_anchors(section)
    if len(anchors) != section.number("num", 1):
        raise ValueError(f"{section.place}: num={section.number('num', 1)}, but there are {len(anchors)} anchors")
    cell = [picture.width / source.width, picture.height / source.height]
    return _add_rows(network, section, anchors * cell, softmax=bool(section.number("softmax", 0)))


def _read_anchors(section: Section) -> np.ndarray:
    """Return the width and height of each anchor."""
    values = section.decimals("anchors")
    if len(values) % 2:
        raise ValueError(f"{section.place}: {len(values)} numbers are no anchors: each has a width and a height")
    return np.reshape(values, (-1, 2))


def _add_rows(
    network: Network, section: Section, anchors: np.ndarray, scale: float = 1, *, softmax: bool = False
) -> Value:
    """Decode the boxes; the rows go along x, then y, and at each place over the anchors, which are in pixels."""
    source, classes, picture = network.last, section.number("classes", 20), network.picture
    per_place, rows = 5 + classes, source.height * source.width * len(anchors)
    if source.channels != per_place * len(anchors):
        raise ValueError(f"{section.place}: {len(anchors)} anchors of {per_place} numbers are not {source.channels}")
    if network.classes not in (0, classes):
        raise ValueError(f"{section.place}: {classes} classes, another [{section.kind}] has {network.classes}")
    y, x, anchor = np.indices((source.height, source.width, len(anchors))).reshape(3, rows)
    step = np.array([picture.width / source.width, picture.height / source.height])
    last = network.add("Transpose", [source.name], perm=[0, 2, 3, 1])
    table = network.add("Reshape", [last, network.constant([1, rows, per_place], np.int64)])
    inside = network.add("Sigmoid", [network.columns(table, 0, 2)])
    corners = network.constant((np.stack([x, y], axis=1)[None] - (scale - 1) / 2) * step)
    centre = network.add("Add", [network.add("Mul", [inside, network.constant(scale * step)]), corners])
    extent = network.add(
        "Mul", [network.add("Exp", [network.columns(table, 2, 4)]), network.constant(anchors[anchor][None])]
    )
    scores = [network.add("Sigmoid", [network.columns(table, 4, 5 if softmax else per_place)])]
    if softmax:
        scores.append(network.add("Softmax", [network.columns(table, 5, per_place)], axis=2))
    network.boxes.append(network.add("Concat", [centre, extent, *scores], axis=2))
    network.rows, network.classes = network.rows + rows, classes
    return source
