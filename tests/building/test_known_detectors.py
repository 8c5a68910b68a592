"""Real detectors find what the code of their own repositories finds."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from frame_packages import build
from PIL import Image

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import Boxes, Keypoints
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.package.results import Box

pytestmark = [pytest.mark.compiler, pytest.mark.shared]


MIN_BOXES = ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256))


def list_ultraface_priors() -> np.ndarray:
    """Return the priors as `generate_priors` of Ultra-Light-Fast-Generic-Face-Detector-1MB has them."""
    priors = []
    for stride, boxes in zip((8, 16, 32, 64), MIN_BOXES, strict=True):
        scale_w, scale_h = 320 / stride, 240 / stride
        for j in range(math.ceil(scale_h)):
            for i in range(math.ceil(scale_w)):
                priors += [((i + 0.5) / scale_w, (j + 0.5) / scale_h, box / 320, box / 240) for box in boxes]
    found: np.ndarray = np.clip(np.array(priors), 0, 1)
    return found


def test_faces_of_ultraface_are_those_of_its_own_decoder(
    shared_models: Path, shared_images: Path, tmp_path: Path
) -> None:
    picture = np.asarray(Image.open(shared_images / "astronaut.png").convert("RGB"))
    rules, frames = Preprocess(mean=(127 / 255,) * 3, std=(128 / 255,) * 3), (Frame(512, 512, "rgb8"),)
    anchors = tuple(tuple(float(side) for each in boxes for side in (each, each)) for boxes in MIN_BOXES)
    asked = Boxes("ssd_softmax", score=0.7, overlap=0.3, strides=(8, 16, 32, 64), anchors=anchors)
    model = onnx.load(shared_models / "ultraface_slim320_sim.onnx")
    with build(tmp_path, model, asked, preprocess=rules, frames=frames) as session:
        (found,) = session.run_frame(picture)
        outputs = session.run({session.inputs[0].name: session.prepare_frame(picture)})
    scores, places = (outputs[name][0].astype(np.float64) for name in ("scores", "boxes"))
    best, priors = int(scores[:, 1].argmax()), list_ultraface_priors()
    centres = places[:, :2] * 0.1 * priors[:, 2:] + priors[:, :2]
    sides = np.exp(places[:, 2:] * 0.2) * priors[:, 2:]
    assert isinstance(found, Box)
    assert found.score == pytest.approx(scores[best, 1], rel=1e-5)
    x, y = (centres - sides / 2)[best] * 512
    np.testing.assert_allclose([found.x, found.y, found.width, found.height], [x, y, *(sides[best] * 512)], atol=1e-2)


def test_faces_of_yunet_are_those_of_opencv(shared_models: Path, shared_images: Path, tmp_path: Path) -> None:
    path = shared_models / "yunet_n_320.onnx"
    picture = np.asarray(Image.open(shared_images / "astronaut.png").convert("RGB"))[:, :, ::-1]
    height, width = picture.shape[:2]
    rules, frames = Preprocess(color="bgr", scale=1.0), (Frame(height, width, "bgr8", "bilinear"),)
    asked = Keypoints("yunet", score=0.6, overlap=0.3, points=5, values=2)
    with build(tmp_path, onnx.load(path), asked, preprocess=rules, frames=frames) as session:
        found = session.run_frame(np.ascontiguousarray(picture))
    peer = cv2.FaceDetectorYN.create(str(path), "", (320, 320), 0.6, 0.3)
    _, want = peer.detect(cv2.resize(picture, (320, 320)))
    scale = np.array([width, height] * 7) / 320
    assert len(found) == len(want) == 1
    for box, row in zip(found, want, strict=True):
        assert isinstance(box, Box)
        points = [value for point in box.points for value in (point.x, point.y)]
        np.testing.assert_allclose([box.x, box.y, box.width, box.height, *points], row[:14] * scale, atol=0.1)
        assert box.score == pytest.approx(row[14], abs=1e-3)
