"""`tvmbuild check` proposes what a network's outputs may mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvmbuild.base.exported import read_exported
from tvmbuild.base.specs import ModelSpec
from tvmbuild.building.examine import Wish, examine
from tvmbuild.compiler.interface import Interface
from tvmbuild.compiler.results.propose import Evidence, propose_postprocess
from tvmbuild.config import load_project
from tvmbuild.package.metadata import TensorInfo

pytestmark = pytest.mark.compiler
PICTURE = (1, 3, 640, 640)
BY_GRID = (
    "keypoints: {form: yunet, outputs: [out0, out4, out8, out1, out5, out9, out2, out6, out10, out3, out7, out11], "
    "points: 5, values: 2}"
)
BLAZE = (
    "boxes: {form: blazeface, output: out1, boxes: out0, "
    "anchors: [[1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]], strides: [8, 16]}"
)
LIGHT = (
    "anchors: [[10, 10, 16, 16, 24, 24], [32, 32, 48, 48], [64, 64, 96, 96], [128, 128, 192, 192, 256, 256]], "
    "strides: [8, 16, 32, 64]"
)
V4 = "[12, 16, 19, 36, 40, 28], [36, 75, 76, 55, 72, 146], [142, 110, 192, 243, 459, 401]"
V3 = "[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119], [116, 90, 156, 198, 373, 326]"


@pytest.mark.parametrize(
    ("picture", "outputs", "want"),
    [
        (PICTURE, [(1, 84, 8400)], ["boxes: {form: yolov8}"]),
        (PICTURE, [(1, 25200, 85)], ["boxes: {form: yolov5}"]),
        (PICTURE, [(1, 25200, 6)], ["boxes: {form: yolov5}"]),
        (PICTURE, [(1, 8400, 6)], ["boxes: {form: yolox}", "boxes: {form: yolov5}"]),
        (PICTURE, [(1, 300, 6)], ["boxes: {form: end2end}"]),
        (PICTURE, [(1, 300, 84)], ["boxes: {form: rtdetr}"]),
        (PICTURE, [(1, 300, 80), (1, 300, 4)], ["boxes: {form: dfine}", "boxes: {form: detr}"]),
        ((1, 3, 416, 416), [(1, 3549, 85)], ["boxes: {form: yolox}", "boxes: {form: yolov5}"]),
        ((1, 3, 416, 416), [(1, 2535, 85)], ["boxes: {form: yolov5}"]),  # YOLOv3-tiny
        ((1, 3, 416, 416), [(1, 845, 25)], ["boxes: {form: yolov5}"]),  # YOLOv2
        ((1, 224, 224, 3), [(1, 1000)], ["classes: {}"]),
        (PICTURE, [(1, 116, 8400), (1, 32, 160, 160)], ["masks: {form: yolov8}"]),
        (PICTURE, [(1, 25200, 117), (1, 32, 160, 160)], ["masks: {form: yolov5}"]),
        (PICTURE, [(1, 300, 38), (1, 32, 160, 160)], ["masks: {form: end2end}"]),
        (PICTURE, [(1, 56, 8400)], ["keypoints: {form: yolov8}"]),
        (PICTURE, [(1, 300, 57)], ["keypoints: {form: end2end}"]),
        (PICTURE, [(1, 21, 640, 640)], ["segmentation: {}"]),
        (
            (1, 3, 240, 320),
            [(1, 4420, 2), (1, 4420, 4)],
            [f"boxes: {{form: ssd_softmax, {LIGHT}}}", f"boxes: {{form: ssd, {LIGHT}}}", "boxes: {form: ssd_decoded}"],
        ),
        (
            (1, 128, 128, 3),
            [(1, 896, 16), (1, 896, 1)],
            [
                BLAZE,
            ],
        ),
        (
            PICTURE,  # RetinaFace
            [(1, 16800, 4), (1, 16800, 2), (1, 16800, 10)],
            [
                f"boxes: {{form: {form}, output: out1, boxes: out0, anchors: [[16, 16, 32, 32], [64, 64, 128, 128], "
                "[256, 256, 512, 512]], strides: [8, 16, 32]}"
                for form in ("ssd_softmax", "ssd")
            ],
        ),
        (
            (1, 3, 320, 320),
            [(1, cells, values) for values in (1, 1, 4, 10) for cells in (1600, 400, 100)],
            ["keypoints: {form: yunet, points: 5, values: 2}"],
        ),
        (
            (1, 3, 320, 320),
            [(1, cells, values) for cells in (1600, 400, 100) for values in (1, 1, 4, 10)],
            [
                BY_GRID,
            ],
        ),
        (
            (1, 3, 416, 416),
            [(1, cells, values) for values in (80, 32) for cells in (2704, 676, 169)],
            ["boxes: {form: nanodet}"],
        ),
        ((1, 3, 512, 512), [(1, 80, 128, 128), (1, 2, 128, 128), (1, 2, 128, 128)], ["boxes: {form: centernet}"]),
        (
            PICTURE,
            [(1, 255, 80, 80), (1, 255, 40, 40), (1, 255, 20, 20)],
            [
                f"boxes: {{form: {form}, anchors: [{each}]}}"
                for form in ("yolov5_raw", "yolov3_raw")
                for each in (V3, V4)
            ],
        ),
        (
            PICTURE,
            [(1, 3, 80, 80, 85), (1, 3, 40, 40, 85), (1, 3, 20, 20, 85)],
            [
                f"boxes: {{form: {form}, anchors: [{each}]}}"
                for form in ("yolov5_raw", "yolov3_raw")
                for each in (V3, V4)
            ],
        ),
        (
            (1, 3, 416, 416),
            [(1, 255, 13, 13), (1, 255, 26, 26)],
            ["boxes: {form: yolov3_raw, anchors: [[81, 82, 135, 169, 344, 319], [10, 14, 23, 27, 37, 58]]}"],
        ),
        ((1, 3, 320, 320), [(1, 1600, 1)], []),
        ((1, 3, 480, 640), [(1, 21, 640, 480)], []),
        (PICTURE, [(120, 7)], ["boxes: {form: yolov7_nms}"]),
        (PICTURE, [(120, 6), (1,)], ["boxes: {form: end2end}", "boxes: {form: ppyolo}"]),
        (
            PICTURE,
            [(1, 25200, 6), (1, 2, 640, 640), (1, 2, 640, 640)],
            ["boxes: {form: yolov5}", "segmentation: [{output: out1}, {output: out2}]"],
        ),
        ((1, 3, 256, 192), [(1, 17, 64, 48)], ["segmentation: {}", "heatmaps: {}"]),
        ((1, 3, 48, 320), [(1, 40, 97)], ["text: {activation: softmax}", "boxes: {form: rtdetr}"]),
        ((1, 3, 32, 100), [(26, 1, 37)], ["text: {activation: softmax}"]),
        ((1, 3, 160, 160), [(1, 512)], ["vector: {}", "classes: {}"]),
        (PICTURE, [], []),
        ((1, 16), [(1, 1000)], []),
    ],
)
def test_proposals(picture: tuple[int, ...], outputs: list[tuple[int, ...]], want: list[str], tmp_path: Path) -> None:
    got = propose(picture, outputs)
    for line in got:
        load(line, tmp_path)
    assert [line.split(" # ")[0] for line in got] == [f"postprocess: {{{each}}}" for each in want]
    assert all(" # " not in line or len(got) > 1 for line in got)


def load(lines: str, folder: Path) -> ModelSpec:
    """Load a project with the lines of a proposal."""
    folder.joinpath("net.onnx").write_bytes(b"onnx")
    own = "".join(f"    {line}\n" for line in lines.splitlines())
    folder.joinpath("models.yaml").write_text(f"models:\n  net:\n    source: {{path: net.onnx}}\n{own}")
    target = "{kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}"
    folder.joinpath("targets.yaml").write_text(f"targets:\n  pc: {target}\n")
    (model,) = load_project(folder).models
    return model


def propose(picture: tuple[int, ...], outputs: list[tuple[int, ...]], **told: Any) -> list[str]:
    infos = tuple(TensorInfo(f"out{place}", shape, "float32") for place, shape in enumerate(outputs))
    interface = Interface("net", (TensorInfo("picture", picture, "float32"),), infos)
    return list(propose_postprocess(interface, Evidence(**told)))


def test_several_proposals_name_their_networks() -> None:
    dfine, detr = propose(PICTURE, [(1, 300, 80), (1, 300, 4)])
    assert dfine == "postprocess: {boxes: {form: dfine}} # RT-DETR, D-FINE, Deformable DETR of transformers"
    assert detr == "postprocess: {boxes: {form: detr}} # DETR, YOLOS of transformers"


def test_a_softmax_at_the_end_is_not_repeated() -> None:
    assert propose(PICTURE, [(1, 1000)], probabilities={"out0"}) == ["postprocess: {classes: {activation: none}}"]
    assert propose((1, 3, 48, 320), [(40, 1, 97)], probabilities={"out0"}) == ["postprocess: {text: {}}"]


LETTERBOX = "preprocess: {resize: letterbox}\npostprocess:"
NAMES = "{0: 'walker', 1: 'No. 2: \\'rider\\''}"
LABELS = "labels: [walker, \"No. 2: 'rider'\"]"


@pytest.mark.parametrize(
    ("properties", "outputs", "want"),
    [
        (
            {"task": "pose", "kpt_shape": "(9, 3)", "names": NAMES},
            [(1, 33, 8400)],
            [f"{LETTERBOX} {{keypoints: {{form: yolov8, points: 9, {LABELS}}}}}"],
        ),
        (
            {"task": "pose", "kpt_shape": "[4, 2]"},
            [(1, 300, 14)],
            [f"{LETTERBOX} {{keypoints: {{form: end2end, points: 4, values: 2}}}}"],
        ),
        (
            {"task": "segment", "names": NAMES},
            [(1, 38, 8400), (1, 32, 160, 160)],
            [f"{LETTERBOX} {{masks: {{form: yolov8, {LABELS}}}}}"],
        ),
        (
            {"task": "detect", "names": "{0: 'a', 2: 'b'}"},  # not one for each class
            [(1, 56, 8400)],  # the task says that these are 52 classes, and not the points of a pose
            [f"{LETTERBOX} {{boxes: {{form: yolov8}}}}"],
        ),
        ({"task": "detect"}, [(1, 300, 84)], ["postprocess: {boxes: {form: rtdetr}}"]),
        ({"task": "obb"}, [(1, 20, 8400)], []),
        ({"task": "pose"}, [(1, 1000)], []),
        ({"task": "classify"}, [(1, 1000)], ["preprocess: {resize: crop}\npostprocess: {classes: {}}"]),
    ],
)
def test_the_words_of_the_exporter_decide(
    properties: dict[str, str], outputs: list[tuple[int, ...]], want: list[str], tmp_path: Path
) -> None:
    assert propose(PICTURE, outputs, exported=read_exported(properties)) == want
    for line in want:
        load(line, tmp_path)


@pytest.mark.parametrize("names", ["not python", "{0: __import__('os')}", "[1", "(" * 500, "{}"])
def test_the_words_of_the_exporter_may_be_nonsense(names: str) -> None:
    found = read_exported({"task": "pose", "names": names, "kpt_shape": names})
    assert found is not None
    assert (found.names, found.points) == ((), 0)
    assert read_exported({"task": "sing"}) is None
    assert read_exported({}) is None


def test_scores_boxes_and_classes_may_be_apart() -> None:
    """RT-DETR's own repository exports it with the size of the picture as a second input."""
    inputs = (TensorInfo("images", PICTURE, "float32"), TensorInfo("orig_target_sizes", (1, 2), "int64"))
    outputs = (
        TensorInfo("labels", (1, 300), "int64"),
        TensorInfo("boxes", (1, 300, 4), "float32"),
        TensorInfo("scores", (1, 300), "float32"),
    )
    got = propose_postprocess(Interface("net", inputs, outputs))
    assert got == ("postprocess: {boxes: {form: separate, output: scores, boxes: boxes, classes: labels}}",)
    short = tuple(TensorInfo(each.name, each.shape[1:], each.dtype) for each in outputs)
    assert propose_postprocess(Interface("net", inputs, short)) == got


RANDOM = np.random.default_rng(0)
CORNERS = np.sort(RANDOM.uniform(0, 1, (1, 4420, 2, 2)), axis=2).reshape(1, 4420, 4)
OFFSETS = RANDOM.normal(0, 2, (1, 4420, 4))
SURE = RANDOM.uniform(0, 1, (1, 4420, 1))
PAIRS = np.concatenate([1 - SURE, SURE], axis=2)
CELLS = RANDOM.normal(0, 2, (1, 8400, 4))
PLACES = RANDOM.uniform(0, 640, (1, 8400, 4))
CHANCES = RANDOM.uniform(0, 1, (1, 8400, 81))


@pytest.mark.parametrize(
    ("picture", "values", "want"),
    [
        ((1, 3, 240, 320), [PAIRS, OFFSETS], [f"boxes: {{form: ssd_softmax, {LIGHT}}}"]),
        ((1, 3, 240, 320), [np.log(PAIRS) + 3, OFFSETS], [f"boxes: {{form: ssd, {LIGHT}}}"]),
        ((1, 3, 240, 320), [PAIRS, CORNERS], ["boxes: {form: ssd_decoded}"]),
        (PICTURE, [np.concatenate([CELLS, CHANCES], axis=2)], ["boxes: {form: yolox}"]),
        (PICTURE, [np.concatenate([PLACES, CHANCES], axis=2)], ["boxes: {form: yolov5}"]),
        (PICTURE, [np.concatenate([PLACES, CHANCES * 9 - 4], axis=2)], []),
        (PICTURE, [np.concatenate([PLACES, CHANCES], axis=2).transpose(0, 2, 1)], ["boxes: {form: yolov8}"]),
        (PICTURE, [np.concatenate([CELLS, CHANCES], axis=2).transpose(0, 2, 1)], []),
        (PICTURE, [PAIRS[:, 0]], ["classes: {activation: none}"]),
        (PICTURE, [CHANCES[:, 0, :10]], ["classes: {}", "classes: {activation: none}"]),
        (PICTURE, [CHANCES[:, 0, :10] * 9 - 4], ["classes: {}"]),
        (PICTURE, [np.full((1, 10), np.nan)], ["classes: {}", "classes: {activation: none}"]),
    ],
)
def test_values_decide_between_forms(picture: tuple[int, ...], values: list[np.ndarray], want: list[str]) -> None:
    told = {f"out{place}": value.astype(np.float32) for place, value in enumerate(values)}
    got = propose(picture, [value.shape for value in values], values=told)
    assert [line.split(" # ")[0] for line in got] == [f"postprocess: {{{each}}}" for each in want]


@pytest.mark.shared
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("yunet_n_320", ["keypoints: {form: yunet, points: 5, values: 2}"]),
        ("ultraface_slim320_sim", [f"boxes: {{form: ssd_softmax, {LIGHT}}}"]),
        ("nanodet_m", ["boxes: {form: nanodet}"]),
        ("yolox_nano", ["boxes: {form: yolox}"]),
        ("yolov3_tiny_decoded", ["boxes: {form: yolov5}"]),
        ("yoeo_random", ["boxes: {form: yolov5}", "segmentation: {output: Segmentations}"]),
        ("mobilenet_v2", ["classes: {}"]),
        ("efficientnet_lite0", ["classes: {}"]),
        ("mnist", ["classes: {}"]),
        ("magika", []),
        ("silero_vad_16k_static", []),
    ],
)
def test_real_networks(name: str, want: list[str], shared_models: Path, tmp_path: Path) -> None:
    found = examine(shared_models / f"{name}.onnx", Wish(), ()).proposals
    assert [line.split(" # ")[0] for line in found] == [f"postprocess: {{{each}}}" for each in want]
    for line in found:
        load(line, tmp_path)
