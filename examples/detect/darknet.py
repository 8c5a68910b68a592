"""The conversion of a darknet network, .cfg and .weights, to an ONNX model that gives boxes in pixels.

It knows the layers of YOLOv2, v3 and v4 and their small variants, and of classifiers; any other layer or option is an
error, never a model that computes something else.
"""  # noqa: INP001 - models.yaml names it by its path

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
from darknet_boxes import add_region, add_yolo
from darknet_files import Section, Weights, read_sections
from darknet_graph import Network, Value
from darknet_layers import (
    add_avgpool,
    add_convolution,
    add_dropout,
    add_maxpool,
    add_reorg,
    add_route,
    add_shortcut,
    add_softmax,
    add_upsample,
)
from onnx import TensorProto, helper

OPSET, IR_VERSION = 13, 8
INPUT, OUTPUT, SCORES = "picture", "detections", "scores"


def to_onnx(cfg: Path, weights: Path) -> onnx.ModelProto:
    """Return the model: ``picture`` [1, 3, H, W] in [0, 1] becomes ``detections`` [1, boxes, 5 + classes].

    A row is the box's centre x and y, width and height, in pixels of ``picture``, the probability that it holds
    something, and each class's, given that it does. A network that ends with [softmax] has ``scores`` [1, classes]
    instead. ValueError if the files cannot be read.
    """
    settings, *layers = read_sections(Path(cfg))
    if settings.kind != "net":
        raise ValueError(f"{settings.place}: the first section of a network is [net], not [{settings.kind}]")
    size = [settings.number(key) for key in ("channels", "height", "width")]
    network = Network(Value(INPUT, *size), Weights(Path(weights)))
    for section in layers:
        add, known = LAYERS.get(section.kind, (None, ()))
        if add is None:
            raise ValueError(f"{section.place}: no layer [{section.kind}] is known; known are {', '.join(LAYERS)}")
        if unknown := [key for key in section.options if key not in known]:
            raise ValueError(f"{section.place}: [{section.kind}] has options that are not known: {', '.join(unknown)}")
        network.outputs.append(add(network, section))
    network.weights.check_used()
    if network.boxes:
        output, shape = OUTPUT, [1, network.rows, 5 + network.classes]
        network.nodes.append(helper.make_node("Concat", network.boxes, [output], output, axis=1))
    elif layers and layers[-1].kind == "softmax":
        output, shape = SCORES, [1, network.last.channels]
        network.nodes.append(helper.make_node("Flatten", [network.last.name], [output], output))
    else:
        raise ValueError(f"{cfg} has no [yolo] and no [region] section, nor a [softmax] at its end: nothing comes out")
    shapes = {INPUT: [1, *size], output: shape}
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name, shape in shapes.items()]
    graph = helper.make_graph(network.nodes, "darknet", *ends, network.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


_TRAINING = {
    "yolo": (
        "jitter, ignore_thresh, truth_thresh, random, iou_thresh, cls_normalizer, iou_normalizer, obj_normalizer, "
        "iou_loss, nms_kind, beta_nms, max_delta, resize, label_smooth_eps, max"
    ),
    "region": (
        "jitter, bias_match, rescore, object_scale, noobject_scale, class_scale, coord_scale, absolute, thresh, random"
    ),
}
"""The options that say how the layer learns, or which boxes darknet keeps; they change no output."""
LAYERS: dict[str, tuple[Callable[[Network, Section], Value], tuple[str, ...]]] = {
    "convolutional": (
        add_convolution,
        ("batch_normalize", "filters", "size", "stride", "pad", "padding", "groups", "activation", "stopbackward"),
    ),
    "maxpool": (add_maxpool, ("size", "stride", "padding")),
    "avgpool": (add_avgpool, ()),
    "softmax": (add_softmax, ("groups",)),
    "dropout": (add_dropout, ("probability",)),
    "route": (add_route, ("layers", "groups", "group_id")),
    "shortcut": (add_shortcut, ("from", "activation")),
    "reorg": (add_reorg, ("stride",)),
    "upsample": (add_upsample, ("stride",)),
    "yolo": (add_yolo, ("mask", "anchors", "classes", "num", "scale_x_y", *_TRAINING["yolo"].split(", "))),
    "region": (
        add_region,
        ("anchors", "classes", "num", "coords", "background", "softmax", *_TRAINING["region"].split(", ")),
    ),
}
"""The function that adds each kind of layer, and the options that the layer may have."""
