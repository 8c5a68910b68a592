"""The keys `frame` and `postprocess` of a model."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvmbuild.base.frame_specs import Crop, Frame
from tvmbuild.base.grid_forms import FORMS, GRID_FORMS
from tvmbuild.base.postprocess_specs import (
    BOX_FORMS,
    Boxes,
    Classes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Raw,
    Segmentation,
    Text,
    Vector,
    kind_of,
    postprocess_from_json,
    postprocess_to_json,
)
from tvmbuild.base.specs import Project
from tvmbuild.config.schema import load_schema

Load = Callable[..., Project]
NET = "models:\n  net:\n    source: {path: models/net.onnx}\n"


def test_one_frame(load: Load) -> None:
    (model,) = load(models=NET + "    preprocess: {frame: {size: [1080, 1920], encoding: nv12}}\n").models
    assert model.frames == (Frame(1080, 1920, "nv12", "antialias"),)


def test_a_padded_frame_of_which_a_part_is_used(load: Load) -> None:
    text = "    preprocess:\n      frame: {size: [480, 640], encoding: bayer_rggb8, stride: 704, crop: [40, 0, 400, 640]}\n"
    (model,) = load(models=NET + text).models
    assert model.frames == (Frame(480, 640, "bayer_rggb8", stride=704, crop=Crop(40, 0, 400, 640)),)


def test_several_frames(load: Load) -> None:
    text = "    preprocess:\n      frame:\n        - {size: [480, 640], encoding: bgr8, interpolation: bilinear}\n"
    (model,) = load(models=NET + text + "        - {size: [480, 640], encoding: rgb8}\n").models
    assert model.frames == (Frame(480, 640, "bgr8", "bilinear"), Frame(480, 640, "rgb8"))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("boxes: {form: yolov8}", Boxes("yolov8")),
        (
            "boxes: {form: detr, output: logits, boxes: pred_boxes, score: 0.5, most: 100}",
            Boxes("detr", ("logits", "pred_boxes"), 0.5, most=100),
        ),
        ("boxes: {form: yolov5, overlap: 1, agnostic: true}", Boxes("yolov5", overlap=1.0, agnostic=True)),
        ("boxes: {form: nanodet, outputs: [a, b]}", Boxes("nanodet", ("a", "b"))),
        ("boxes: {form: yolov3_raw, anchors: [[10, 13.5], [1, 2]]}", Boxes("yolov3_raw", anchors=((10, 13.5), (1, 2)))),
        (
            "boxes: {form: ssd, output: s, boxes: b, strides: [8, 16.5], anchors: [[10, 20], [30, 40]], variances: [1, 1]}",
            Boxes("ssd", ("s", "b"), anchors=((10, 20), (30, 40)), strides=(8, 16.5), variances=(1, 1)),
        ),
        ("boxes: {form: ssd_tf, output: s, boxes: b, priors: p}", Boxes("ssd_tf", ("s", "b", "p"))),
        ("boxes: {form: separate, output: s, boxes: b, classes: c}", Boxes("separate", ("s", "b", "c"))),
        ("classes: {labels: [a, b]}", Classes(labels=("a", "b"))),
        ("masks: {form: yolov8, output: out, prototypes: protos}", Masks("yolov8", ("out", "protos"))),
        ("keypoints: {form: end2end, points: 5, values: 2}", Keypoints("end2end", points=5, values=2)),
        ("segmentation: {interpolation: nearest}", Segmentation(interpolation="nearest")),
        (
            "segmentation: {output: o, activation: sigmoid, score: 1}",
            Segmentation(("o",), activation="sigmoid", score=1.0),
        ),
        ("text: {activation: softmax, blank: last}", Text((), "softmax", "last")),
        ("vector: {normalise: false}", Vector((), normalise=False)),
        ("heatmaps: {}", Heatmaps()),
        ("raw: {outputs: [a, b]}", Raw(("a", "b"))),
        ("masks: {form: end2end, resolution: input}", Masks("end2end", resolution="input")),
        ("segmentation: {resolution: input}", Segmentation(resolution="input")),
        ("classes: {}", Classes()),
        ("classes: {output: scores, activation: none, most: 3}", Classes(("scores",), "none", most=3)),
    ],
)
def test_results(load: Load, text: str, want: Postprocess) -> None:
    (model,) = load(models=NET + f"    postprocess: {{{text}}}\n").models
    assert model.postprocess == (want,)
    assert postprocess_from_json(postprocess_to_json((want,))) == (want,)


def test_several_results_of_a_kind(load: Load) -> None:
    text = "classes: {}, segmentation: [{output: a, labels: [x, y]}, {output: b}], heatmaps: [{output: c}]"
    (model,) = load(models=NET + f"    postprocess: {{{text}}}\n").models
    maps = (Segmentation(("a",), labels=("x", "y")), Segmentation(("b",)))
    assert model.postprocess == (Classes(), *maps, Heatmaps(("c",)))
    assert postprocess_from_json(postprocess_to_json(model.postprocess)) == model.postprocess


MISTAKES = {
    "postprocess: {segmentation: [{output: a}, {interpolation: cubic}]}": 'models.yaml:4:63: models.net.postprocess.segmentation[1].interpolation: "cubic" is not valid; expected bilinear or nearest',
    "postprocess: {vector: [{output: a}, {output: b}]}": "models.yaml:4:27: models.net.postprocess.vector: found a list; expected a map",
    "preprocess: {frame: {size: [5, 7], encoding: nv12}}": "models.yaml:4:32: models.net.preprocess.frame.size: [5, 7] is not possible for nv12; expected two pixels of a row share a colour in nv12, so the width is even",
    "preprocess: {frame: [{size: [4, 8], encoding: rgb8}, {size: [4, 8], encoding: rgb8}]}": "models.yaml:4:58: models.net.preprocess.frame[1]: rgb8 [4, 8, 3] is listed twice; expected each size and encoding once",
    "preprocess: {frame: {size: [4, 8], encoding: rgb8, stride: 23}}": "models.yaml:4:64: models.net.preprocess.frame.stride: 23 is not possible for rgb8; expected a row has 24 bytes, so the stride is 24 to 131072",
    "preprocess: {frame: {size: [4, 8], encoding: rgb8, crop: [1, 0, 4, 8]}}": "models.yaml:4:62: models.net.preprocess.frame.crop: [1, 0, 4, 8] is not possible for rgb8; expected the crop lies inside of 4 rows and 8 columns",
    "preprocess: {frame: {size: [4, 8], encoding: rgb}}": 'models.yaml:4:50: models.net.preprocess.frame.encoding: "rgb" is not valid; expected rgb8, bgr8, rgba8, bgra8, mono8, yuyv, uyvy, nv12, nv21, i420, bayer_rggb8, bayer_bggr8, bayer_gbrg8 or bayer_grbg8; did you mean "rgb8"?',
    "postprocess: {}": "models.yaml:4:5: models.net.postprocess: is empty; expected one or several of the keys boxes, masks, keypoints, classes, segmentation, text, vector, heatmaps or raw",
    "postprocess: {boxes: {form: yolov8}, masks: {form: yolov8}}": "models.yaml:4:18: models.net.postprocess: boxes and masks both have boxes; expected one of them",
    "postprocess: {depth: {}}": "models.yaml:4:19: models.net.postprocess.depth: unknown key; expected boxes, masks, keypoints, classes, segmentation, text, vector, heatmaps or raw",
    "postprocess: {boxes: {form: yolov9}}": 'models.yaml:4:33: models.net.postprocess.boxes.form: "yolov9" is not valid; expected yolov5, yolov8, yolox, end2end, separate, ppyolo, yolov7_nms, rtdetr, detr, dfine, ssd, ssd_softmax, ssd_tf, ssd_decoded, blazeface, yolov3_raw, yolov5_raw, yunet, nanodet or centernet; did you mean "yolov8"?',
    "postprocess: {boxes: {form: separate, output: a, boxes: b}}": "models.yaml:4:19: models.net.postprocess.boxes: not all outputs are named; expected all of `output`, `boxes` and `classes`",
    "postprocess: {boxes: {form: yolov8, classes: a}}": "models.yaml:4:41: models.net.postprocess.boxes.classes: the form yolov8 has no output with the classes; expected no `classes`",
    "postprocess: {boxes: {form: yolov3_raw}}": "models.yaml:4:19: models.net.postprocess.boxes: the form yolov3_raw needs `anchors`; expected width and height of each, a list for each grid",
    "postprocess: {boxes: {form: yolov3_raw, anchors: [[1, 2, 3]]}}": "models.yaml:4:55: models.net.postprocess.boxes.anchors[0]: has 3 numbers; expected width and height of each anchor",
    "postprocess: {boxes: {form: nanodet, anchors: [[1, 2]]}}": "models.yaml:4:42: models.net.postprocess.boxes.anchors: the form nanodet has no anchors; expected no `anchors`",
    "postprocess: {boxes: {form: nanodet, output: a}}": "models.yaml:4:42: models.net.postprocess.boxes.output: the form nanodet has grids; expected `outputs`, with all of them",
    "postprocess: {boxes: {form: yolov8, outputs: [a]}}": "models.yaml:4:41: models.net.postprocess.boxes.outputs: the form yolov8 has no grids; expected no `outputs`",
    "postprocess: {boxes: {form: yolov8, strides: [8]}}": "models.yaml:4:41: models.net.postprocess.boxes.strides: the form yolov8 has no priors; expected no `strides`",
    "postprocess: {boxes: {form: nanodet, priors: p}}": "models.yaml:4:42: models.net.postprocess.boxes.priors: the form nanodet has no priors; expected no `priors`",
    "postprocess: {boxes: {form: blazeface, strides: [8], anchors: [[1, 1]], variances: [1, 1]}}": "models.yaml:4:77: models.net.postprocess.boxes.variances: the form blazeface has no scaled priors; expected no `variances`",
    "postprocess: {boxes: {form: ssd}}": "models.yaml:4:19: models.net.postprocess.boxes: the form ssd needs priors; expected `priors`, the output with them, or both `anchors` and `strides`",
    "postprocess: {boxes: {form: ssd, strides: [8], anchors: [[1, 1], [2, 2]]}}": "models.yaml:4:47: models.net.postprocess.boxes.strides: has 1 numbers; expected one for each of 2 grids",
    "postprocess: {boxes: {form: ssd, priors: p}}": "models.yaml:4:19: models.net.postprocess.boxes: not all outputs are named; expected all of `output`, `boxes` and `priors`",
    "postprocess: {masks: {form: detr}}": 'models.yaml:4:33: models.net.postprocess.masks.form: "detr" is not valid; expected yolov5, yolov8, yolox, end2end or rtdetr; did you mean "rtdetr"?',
    "postprocess: {keypoints: {form: nanodet}}": 'models.yaml:4:37: models.net.postprocess.keypoints.form: "nanodet" is not valid; expected yolov5, yolov8, yolox, end2end, rtdetr or yunet',
    "postprocess: {raw: {}}": 'models.yaml:4:19: models.net.postprocess.raw: the key "outputs" is missing; expected outputs: names of outputs of fixed length that are returned as they are, beside other results',
    "postprocess: {masks: {form: yolov8, prototypes: p}}": "models.yaml:4:19: models.net.postprocess.masks: one of two outputs is named; expected both `output`, with the boxes, and `prototypes`, or none",
    "postprocess: {masks: {form: yolov8, most: 300}}": "models.yaml:4:47: models.net.postprocess.masks.most: 300 is too large; expected at most 255",
    "postprocess: {keypoints: {form: yolov8, values: 4}}": "models.yaml:4:53: models.net.postprocess.keypoints.values: 4 is too large; expected at most 3",
    "postprocess: {boxes: {form: detr, output: logits}}": "models.yaml:4:19: models.net.postprocess.boxes: one of two outputs is named; expected both `output`, with the scores, and `boxes`, or none",
    "postprocess: {boxes: {form: yolov8, boxes: x}}": "models.yaml:4:41: models.net.postprocess.boxes.boxes: the form yolov8 has boxes and scores in one output; expected only `output`",
    "postprocess: {boxes: {form: yolov8, score: 2}}": "models.yaml:4:48: models.net.postprocess.boxes.score: 2 is too large; expected at most 1",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(load_mistakes: Callable[..., list[str]], text: str) -> None:
    assert load_mistakes(models=NET + f"    {text}\n") == [MISTAKES[text]]


def test_several_results_have_one_order(load: Load) -> None:
    text = "    postprocess:\n      segmentation: {output: s}\n      boxes: {form: yolov5, output: d}\n"
    (model,) = load(models=NET + text).models
    assert model.postprocess == (Boxes("yolov5", ("d",)), Segmentation(("s",)))
    assert postprocess_from_json(postprocess_to_json(model.postprocess)) == model.postprocess


@pytest.mark.parametrize("kind", FORMS)
def test_the_schema_has_the_forms_of_the_table(kind: str) -> None:
    assert tuple(load_schema("models")["$defs"][kind]["properties"]["form"]["enum"]) == FORMS[kind]


KEYS = {
    "anchors": ", anchors: [[1, 2]]",
    "priors": ", strides: [8], anchors: [[1, 2]]",
    "apart": ", output: a, boxes: b, classes: c",
}


@pytest.mark.parametrize(("kind", "form"), [(kind, form) for kind, forms in FORMS.items() for form in forms])
def test_the_config_accepts_each_form_that_the_schema_offers(load: Load, kind: str, form: str) -> None:
    box, grid = BOX_FORMS.get(form), GRID_FORMS.get(form)
    needed = {
        "anchors": grid is not None and grid.with_anchors,
        "priors": box is not None and box.priors != "none",
        "apart": box is not None and box.apart,
    }
    more = "".join(KEYS[key] for key, is_needed in needed.items() if is_needed)
    (model,) = load(models=NET + f"    postprocess: {{{kind}: {{form: {form}{more}}}}}\n").models
    (found,) = model.postprocess
    assert isinstance(found, Boxes)
    assert (kind_of(found), found.form) == (kind, form)
