"""Real detectors find what the code of their own repositories finds."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from frame_packages import build
from PIL import Image

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.postprocess_specs import Keypoints
from tvmbuild.base.specs import Preprocess
from tvmbuild.package.results import Box

pytestmark = [pytest.mark.compiler, pytest.mark.shared]


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
