"""The detect example's converter computes the same as darknet's own loops, and refuses unknown parts."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime
import pytest
from darknet_forward import convolve, pool

NETWORK = """
[net]
width=12  # both a multiple of what the layers shrink by
height=8
channels=3
learning_rate=0.001

[convolutional]
batch_normalize=1
filters=4
size=3
stride=1
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[maxpool]
size=2
stride=1

[convolutional]
filters=14
size=1
stride=1
pad=1
activation=linear

[yolo]
mask = 1,2
anchors = 3,5, 4,2, 6,7
classes=2
num=3

[route]
layers = -4

[upsample]
stride=2

[route]
layers = -1, 0

[convolutional]
filters=7
size=3
stride=2
pad=0
activation=linear

[yolo]
mask = 0
anchors = 3,5, 4,2, 6,7
classes=2
num=3
"""
COUNT = 4 * 4 + 4 * 27 + 14 + 14 * 4 + 7 + 7 * 8 * 9


@pytest.fixture
def darknet(monkeypatch: pytest.MonkeyPatch, project_root: Path) -> ModuleType:
    monkeypatch.syspath_prepend(project_root / "examples" / "detect")
    return importlib.import_module("darknet")


def write_files(folder: Path, cfg: str, values: np.ndarray, header: bytes = struct.pack("<iiiq", 0, 2, 0, 9)) -> Path:
    (folder / "net.cfg").write_text(cfg)
    (folder / "net.weights").write_bytes(header + values.astype("<f4").tobytes())
    return folder


def draw_weights(count: int = COUNT) -> np.ndarray:
    values = np.random.default_rng(0).uniform(0.1, 0.5, count) * np.where(np.arange(count) % 3, 1, -1)
    values[12:16] = np.abs(values[12:16])  # variances
    return values


def decode(x: np.ndarray, anchors: list[tuple[int, int]]) -> list[list[float]]:
    """Compute `get_yolo_box` of darknet, in pixels of a picture of 12 x 8."""
    _, height, width = x.shape
    logistic: Callable[[np.ndarray], np.ndarray] = lambda value: 1 / (1 + np.exp(-value))  # noqa: E731
    rows = []
    for row, column, index in np.ndindex(height, width, len(anchors)):
        values = x[index * 7 : index * 7 + 7, row, column]
        centre = (np.array([column, row]) + logistic(values[:2])) / [width, height] * [12, 8]
        rows.append([*centre, *np.exp(values[2:4]) * anchors[index], *logistic(values[4:])])
    return rows


def compute(picture: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compute NETWORK layer by layer, the normalisation as darknet writes it."""
    parts = np.split(values, np.cumsum([4, 4, 4, 4, 4 * 27, 14, 14 * 4, 7]))
    bias, scale, mean, variance = (part[:, None, None] for part in parts[:4])
    first = convolve(picture, parts[4].reshape(4, 3, 3, 3), 1, 1)
    first = (first - mean) / np.sqrt(variance + 0.00001) * scale + bias
    first = np.where(first > 0, first, 0.1 * first)
    pooled = pool(first, 2, 2)
    small = pool(pooled, 2, 1)
    boxes = decode(convolve(small, parts[6].reshape(14, 4, 1, 1), 0, 1) + parts[5][:, None, None], [(4, 2), (6, 7)])
    large = np.concatenate([pooled.repeat(2, axis=1).repeat(2, axis=2), first])
    last = convolve(large, parts[8].reshape(7, 8, 3, 3), 0, 2) + parts[7][:, None, None]
    return np.array([*boxes, *decode(last, [(3, 5)])])


@pytest.mark.parametrize("header", [struct.pack("<iiiq", 0, 2, 0, 9), struct.pack("<iiii", 0, 1, 0, 9)])
def test_computes_what_darknet_does(darknet: ModuleType, tmp_path: Path, header: bytes) -> None:
    values = draw_weights()
    write_files(tmp_path, NETWORK, values, header)
    model = darknet.to_onnx(cfg=tmp_path / "net.cfg", weights=tmp_path / "net.weights")
    picture = np.random.default_rng(1).uniform(0, 1, (1, 3, 8, 12)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,) = session.run(["detections"], {"picture": picture})
    want = compute(picture[0].astype(np.float64), values.astype(np.float32).astype(np.float64))
    assert got.shape == (1, 4 * 6 * 2 + 3 * 5, 7)
    np.testing.assert_allclose(got[0], want, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[upsample]\nstride=2", "[sam]\nfrom=-3", r"net\.cfg:40: no layer \[sam\] is known; known are conv"),
        ("pad=0", "pad=0\ndilation=2", r"net\.cfg:46: \[convolutional\] has options that are not known: dilation"),
        ("activation=leaky", "activation=selu", r"net\.cfg:8: activation=selu is not known; known are leaky, linear"),
        ("filters=4\n", "", r"net\.cfg:8: \[convolutional\] has no `filters`"),
        ("filters=4\n", "filters=four\n", r"net\.cfg:8: filters=four is not a list of integers"),
        ("layers = -1, 0", "layers = -1, 9", r"net\.cfg:43: a route leads to a layer that is not before it"),
        ("mask = 0\n", "mask = 0,1\n", r"net\.cfg:53: 2 anchors of 7 numbers are not 7"),
        ("[net]", "[network]", r"net\.cfg:2: the first section of a network is \[net\], not \[network\]"),
        ("[net]\n", "", r"net\.cfg:2: neither a \[section\] nor an option of one: width=12"),
        ("[maxpool]\n", "maxpool\n", r"net\.cfg:16: neither a \[section\] nor an option of one: maxpool"),
    ],
)
def test_refuses_what_it_does_not_know(darknet: ModuleType, tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in NETWORK
    write_files(tmp_path, NETWORK.replace(old, new, 1), draw_weights())
    with pytest.raises(ValueError, match=message):
        darknet.to_onnx(tmp_path / "net.cfg", tmp_path / "net.weights")


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (COUNT - 1, f"has {COUNT - 1} weights, fewer than the .cfg file asks for"),
        (COUNT + 1, f"has {COUNT + 1} weights, the .cfg file asks for {COUNT}"),
    ],
)
def test_weights_of_another_network(darknet: ModuleType, tmp_path: Path, count: int, message: str) -> None:
    write_files(tmp_path, NETWORK, draw_weights(count))
    with pytest.raises(ValueError, match=message):
        darknet.to_onnx(tmp_path / "net.cfg", tmp_path / "net.weights")


def test_cut_off_weights(darknet: ModuleType, tmp_path: Path) -> None:
    write_files(tmp_path, NETWORK, draw_weights())
    path = tmp_path / "net.weights"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ValueError, match=r"net\.weights is no \.weights file: it has \d+ bytes"):
        darknet.to_onnx(tmp_path / "net.cfg", path)
