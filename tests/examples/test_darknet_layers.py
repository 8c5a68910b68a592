"""The detect example's converter computes every layer it knows as darknet does, in networks like YOLOv2, v3 and v4."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from darknet_forward import Pass, run_forward
from small_package import build_package

from tvmbuild.package.runtime.session import Session

SIZE = (8, 12)


@pytest.fixture
def darknet(monkeypatch: pytest.MonkeyPatch, project_root: Path) -> ModuleType:
    monkeypatch.syspath_prepend(project_root / "examples" / "detect")
    return importlib.import_module("darknet")


def begin(height: int, width: int) -> str:
    return f"[net]\nwidth={width}\nheight={height}\nchannels=3\n"


def section(kind: str, **options: Any) -> str:
    """Return a section of a .cfg file; an underscore at the end of a key is none of it."""
    return f"[{kind}]\n" + "".join(f"{key.rstrip('_')}={value}\n" for key, value in options.items())


def convolution(filters: int, size: int = 3, stride: int = 1, activation: str = "leaky", **options: Any) -> str:
    """Return a convolution, normalised unless it is linear."""
    given = {"filters": filters, "size": size, "stride": stride, "pad": 1, "activation": activation, **options}
    return section("convolutional", **({} if activation == "linear" else {"batch_normalize": 1}), **given)


def end(anchors: int = 2, classes: int = 2) -> str:
    """Return the last two layers of a small network."""
    ends = ", ".join(f"{each + 3},{each + 5}" for each in range(anchors))
    last = convolution(anchors * (5 + classes), 1, activation="linear")
    return last + section("yolo", anchors=ends, classes=classes, num=anchors)


def both(darknet: ModuleType, folder: Path, cfg: str, size: tuple[int, int] = SIZE) -> tuple[np.ndarray, Pass]:
    """Return the output of the converted network, and darknet's."""
    picture = np.random.default_rng(1).uniform(0, 1, (3, *size)).astype(np.float32)
    want = run_forward(begin(*size) + cfg, picture)
    (folder / "net.cfg").write_text(begin(*size) + cfg)
    weights = b"".join(each.astype("<f4").tobytes() for each in want.weights)
    (folder / "net.weights").write_bytes(struct.pack("<iiiq", 0, 2, 0, 9) + weights)
    model = darknet.to_onnx(folder / "net.cfg", folder / "net.weights")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"picture": picture[None]})
    return np.asarray(got), want


def expect_darknets(darknet: ModuleType, folder: Path, cfg: str, size: tuple[int, int] = SIZE) -> np.ndarray:
    """Compare the boxes with darknet's, and return them."""
    got, want = both(darknet, folder, cfg, size)
    rows = np.array(want.rows)
    assert got.shape == (1, *rows.shape)
    assert rows.std(axis=0).min() > 1e-3, "the boxes differ too little"
    np.testing.assert_allclose(got[0], rows, rtol=2e-4, atol=2e-4)
    return rows


LAYERS = {
    "shortcut": convolution(4) + convolution(4, 1) + section("shortcut", from_=-2),
    "shortcut, leaky": convolution(4) + convolution(4, 1) + section("shortcut", from_=0, activation="leaky"),
    "shortcut of two": convolution(4) * 3 + section("shortcut", from_="-2,0", activation="relu"),
    "reorg": convolution(8) + section("reorg", stride=2),
    "reorg by default": convolution(8) + section("reorg"),
    "route of one half": convolution(6) + section("route", layers=-1, groups=2, group_id=1),
    "route of thirds": convolution(6) + convolution(9, 1) + section("route", layers="-1,-2", groups=3, group_id=1),
    "groups": convolution(6) + convolution(4, groups=2),
    "groups of one channel": convolution(6) + convolution(6, groups=6, activation="relu"),
    "padding": convolution(5, 5, stride=2, pad=0, padding=1),
    "no activation": section("convolutional", filters=4, batch_normalize=1),
    "maxpool of 3": convolution(4) + section("maxpool", size=3, stride=1),
    "maxpool of 5 and 9": convolution(4)
    + section("maxpool", size=5, stride=1)
    + section("route", layers=-2)
    + section("maxpool", size=9, stride=1)
    + section("route", layers="-1,-3,-4"),
    "maxpool of 2": convolution(4) + section("maxpool", size=2, stride=1),
    "maxpool of 3 by 2": convolution(4) + section("maxpool", size=3, stride=2),
    "maxpool, padded": convolution(4) + section("maxpool", size=3, stride=1, padding=0),
    "maxpool by default": convolution(4) + section("maxpool", stride=2),
    "upsample": convolution(4, stride=2) + section("upsample"),
    "upsample by 3": convolution(4, stride=4) + section("upsample", stride=3),
    "dropout": convolution(4) + section("dropout", probability=0.5),
    "avgpool": convolution(4) + section("avgpool") + section("upsample", stride=4),
    **{
        f"activation {name}": convolution(4, activation=name) + convolution(4, 1, activation=name)
        for name in ("leaky", "mish", "swish", "relu", "logistic")
    },
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_compute_what_darknet_does(darknet: ModuleType, tmp_path: Path, name: str) -> None:
    expect_darknets(darknet, tmp_path, LAYERS[name] + end())


def test_darknets_reorg_has_an_order_of_its_own(darknet: ModuleType, tmp_path: Path) -> None:
    """Without this, a space_to_depth would pass for a network whose picture happens to be symmetric."""
    _, want = both(darknet, tmp_path, LAYERS["reorg"] + end())
    source, moved = want.outputs[0], want.outputs[1]
    blocks = source.reshape(8, 4, 2, 6, 2)
    for order in ((2, 4, 0, 1, 3), (0, 2, 4, 1, 3)):
        assert np.abs(blocks.transpose(order).reshape(32, 4, 6) - moved).max() > 0.1


@pytest.mark.parametrize("softmax", [0, 1])
def test_regions_have_anchors_in_cells(darknet: ModuleType, tmp_path: Path, softmax: int) -> None:
    head = {"anchors": "0.57273,0.677385, 1.87446, 2.06253, 3.33843,5.47434", "num": 3, "classes": 4, "coords": 4}
    cfg = convolution(4, stride=2) + convolution(27, 1, activation="linear")
    rows = expect_darknets(darknet, tmp_path, cfg + section("region", softmax=softmax, **head))
    assert rows.shape == (4 * 6 * 3, 9)
    assert np.allclose(rows[:, 5:].sum(axis=1), 1) == bool(softmax)


def test_boxes_of_v4_reach_beyond_their_cells(darknet: ModuleType, tmp_path: Path) -> None:
    cfg = convolution(4, stride=2, activation="mish") + convolution(14, 1, activation="linear")
    head = {"anchors": "3.5,5, 4,2, 6,7", "num": 3, "classes": 2, "iou_loss": "ciou", "nms_kind": "greedynms"}
    plain = expect_darknets(darknet, tmp_path, cfg + section("yolo", mask="2,0", **head))
    wide = expect_darknets(darknet, tmp_path, cfg + section("yolo", mask="2,0", scale_x_y=1.2, **head))
    assert np.abs(plain - wide)[:, :2].max() > 0.01


def test_classifiers_give_scores(darknet: ModuleType, tmp_path: Path) -> None:
    cfg = convolution(8) + convolution(5, 1, activation="linear") + section("avgpool") + section("softmax", groups=1)
    got, want = both(darknet, tmp_path, cfg)
    np.testing.assert_allclose(got, want.outputs[-1].reshape(1, 5), rtol=1e-5)


def list_yolov3() -> Iterator[str]:
    """Yield the sections of YOLOv3 in their order, with a sixteenth of its channels, or less."""
    yield convolution(2)
    for filters, blocks in ((4, 1), (8, 2), (16, 8), (32, 8), (64, 4)):
        yield convolution(filters, stride=2)
        for _ in range(blocks):
            yield convolution(filters // 2, 1)
            yield convolution(filters)
            yield section("shortcut", from_=-3, activation="linear")
    anchors = "10,13,  16,30,  33,23,  30,61,  62,45,  59,119,  116,90,  156,198,  373,326"
    for filters, mask, other in ((32, "6,7,8", 61), (16, "3,4,5", 36), (8, "0,1,2", None)):
        for _ in range(3):
            yield convolution(filters, 1)
            yield convolution(2 * filters)
        yield convolution(21, 1, activation="linear")
        yield section("yolo", mask=mask, anchors=anchors, classes=2, num=9, jitter=0.3, ignore_thresh=0.7, random=1)
        if other:
            yield section("route", layers=-4)
            yield convolution(filters // 2, 1)
            yield section("upsample", stride=2)
            yield section("route", layers=f"-1, {other}")


def list_yolov2() -> Iterator[str]:
    """Yield the sections of YOLOv2 in their order, with a sixteenth of its channels."""
    for number, (filters, count) in enumerate(((2, 1), (4, 1), (8, 3), (16, 3), (32, 5), (64, 5))):
        if number:
            yield section("maxpool", size=2, stride=2)
        for each in range(count):
            yield convolution(filters // 2, 1) if each % 2 else convolution(filters)
    yield convolution(64) * 2
    yield section("route", layers=-9)
    yield convolution(4, 1)
    yield section("reorg", stride=2)
    yield section("route", layers="-1,-4")
    yield convolution(64)
    yield convolution(5 * 8, 1, activation="linear")
    anchors = "0.57273, 0.677385, 1.87446, 2.06253, 3.33843, 5.47434, 7.88282, 3.52778, 9.77052, 9.16828"
    training = {"bias_match": 1, "jitter": 0.3, "rescore": 1, "object_scale": 5, "absolute": 1, "thresh": 0.6}
    yield section("region", anchors=anchors, classes=3, coords=4, num=5, softmax=1, **training)


@pytest.mark.parametrize(
    ("sections", "layers", "boxes"), [(list_yolov3, 107, 3 * (6 + 24 + 96)), (list_yolov2, 32, 5 * 6)]
)
def test_whole_networks_compute_what_darknet_does(
    darknet: ModuleType, tmp_path: Path, sections: Any, layers: int, boxes: int
) -> None:
    cfg = "".join(sections())
    assert cfg.count("[") == layers
    assert len(expect_darknets(darknet, tmp_path, cfg, (64, 96))) == boxes


@pytest.mark.nightly
@pytest.mark.compiler
@pytest.mark.parametrize("name", ["yolov2", "yolov4"])
def test_packages_compute_the_same(darknet: ModuleType, tmp_path: Path, name: str) -> None:
    cfg = "".join(list_yolov2())
    if name == "yolov4":
        cfg = convolution(8, activation="mish") + LAYERS["route of one half"] + LAYERS["maxpool of 5 and 9"] + end()
    expect_darknets(darknet, tmp_path, cfg, (64, 96))
    onnx.save(darknet.to_onnx(tmp_path / "net.cfg", tmp_path / "net.weights"), tmp_path / "net.onnx")
    picture = np.random.default_rng(1).uniform(0, 1, (3, 64, 96)).astype(np.float32)
    with Session(build_package(tmp_path / "net.onnx", tmp_path)) as session:
        got = session.run({"picture": picture[None]})["detections"]
    np.testing.assert_allclose(got[0], np.array(run_forward(begin(64, 96) + cfg, picture).rows), rtol=1e-3, atol=1e-3)


REFUSED = {
    "net\\.cfg:19: a shortcut adds layers of the same shape, not \\(4, 8, 12\\) to \\(5, 8, 12\\)": (
        convolution(4) + convolution(5, 1) + section("shortcut", from_=-2)
    ),
    "net\\.cfg:12: a shortcut leads to a layer that is not before it": convolution(4) + section("shortcut", from_=1),
    "net\\.cfg:12: \\[shortcut\\] has options that are not known: alpha": (
        convolution(4) + section("shortcut", from_=-1, alpha=2)
    ),
    "net\\.cfg:12: stride=2 divides 6 channels of 8x12 unevenly": convolution(6) + section("reorg", stride=2),
    "net\\.cfg:12: \\[reorg\\] has options that are not known: reverse": (
        convolution(4) + section("reorg", stride=2, reverse=1)
    ),
    "net\\.cfg:12: group_id=2 of groups=2 is no equal part of the channels": (
        convolution(4) + section("route", layers=-1, groups=2, group_id=2)
    ),
    "net\\.cfg:15: a route joins layers of several sizes: 4x6, 8x12": (
        convolution(4) + section("maxpool", size=2, stride=2) + section("route", layers="-1,0")
    ),
    "net\\.cfg:5: 2 groups divide 3 channels or 4 filters unevenly": convolution(4, groups=2),
    "net\\.cfg:12: a softmax is known of one group, of a map of 1x1": convolution(4) + section("softmax"),
    "net\\.cfg:11: coords=3 is not known; known is 4": (
        convolution(7, activation="linear") + section("region", coords=3, anchors="1,2", num=1, classes=2)
    ),
    "net\\.cfg:11: num=2, but there are 1 anchors": (
        convolution(7, activation="linear") + section("region", anchors="1,2", num=2, classes=2)
    ),
    "net\\.cfg:11: mask=3 names an anchor that is not there": (
        convolution(7, activation="linear") + section("yolo", mask=3, anchors="1,2", num=1, classes=2)
    ),
    "net\\.cfg:11: 3 numbers are no anchors": (
        convolution(7, activation="linear") + section("yolo", anchors="1,2,3", num=1, classes=2)
    ),
    "net\\.cfg:11: anchors=1,two is not a list of numbers": (
        convolution(7, activation="linear") + section("yolo", anchors="1,two", num=1, classes=2)
    ),
    "net\\.cfg:11: \\[yolo\\] has options that are not known: new_coords": (
        convolution(7, activation="linear") + section("yolo", anchors="1,2", num=1, classes=2, new_coords=1)
    ),
    "net\\.cfg has no \\[yolo\\] and no \\[region\\] section": convolution(4),
}
"""Message → the network that is refused with it."""


@pytest.mark.parametrize("message", REFUSED)
def test_refuses_what_it_does_not_know(darknet: ModuleType, tmp_path: Path, message: str) -> None:
    (tmp_path / "net.cfg").write_text(begin(*SIZE) + REFUSED[message])
    count = 0 if "groups divide" in message else run_first_layers(REFUSED[message])
    (tmp_path / "net.weights").write_bytes(struct.pack("<iiiq", 0, 2, 0, 9) + bytes(4 * count))
    with pytest.raises(ValueError, match=message):
        darknet.to_onnx(tmp_path / "net.cfg", tmp_path / "net.weights")


def run_first_layers(cfg: str) -> int:
    """Return the number of weights of the convolutions."""
    only = "".join(f"[{part}" for part in cfg.split("[")[1:] if part.startswith("convolutional"))
    done = run_forward(begin(*SIZE) + only, np.zeros((3, *SIZE)))
    return sum(each.size for each in done.weights)
