"""Detectors and a finder of points that end with their own suppression, with random weights.

They need the libraries of `networks.py`. The logits of their heads get a mean and a deviation with which a few boxes of
a photograph have high scores.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import onnx
import torch
from calibration import SEED, calibrate, read_pictures
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

_HEADS = {
    "ssdlite320_mobilenet_v3_large": (["head.classification_head.module_list"], 0.0, 3.0),
    "fasterrcnn_mobilenet_v3_large_320_fpn": (["rpn.head.cls_logits", "roi_heads.box_predictor.cls_score"], 0.0, 3.0),
    "retinanet_resnet50_fpn_v2": (["head.classification_head.cls_logits"], -4.0, 1.0),
    "fcos_resnet50_fpn": (["head.classification_head.cls_logits"], -4.0, 1.0),
}
"""Name of a detector of torchvision → the layers that compute logits, and the mean and the deviation of these."""
_OPSET = 17


class _Detector(nn.Module):  # type: ignore[misc]
    """A detector of torchvision whose input is a batch of one picture, and whose outputs have names and an order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return boxes, scores and labels."""
        (found,) = self.model([image[0]])
        return found["boxes"], found["scores"], found["labels"]


def make_torchvision(name: str, size: int, *, dynamo: bool = False) -> onnx.ModelProto:
    """Return a detector of torchvision for a square picture, by PyTorch's older exporter or by its newer one."""
    import torchvision  # noqa: PLC0415

    torch.manual_seed(SEED)
    options = {} if name.startswith("ssdlite") else {"min_size": size, "max_size": size}
    options |= {"rpn_post_nms_top_n_test": 60} if name.startswith("faster") else {}
    threshold = "box_score_thresh" if name.startswith("faster") else "score_thresh"
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, **options, **{threshold: 0.3})
    calibrate(model, [read_pictures(size)])
    paths, mean, deviation = _HEADS[name]
    for path in paths:
        layer = model.get_submodule(path)
        for last in [each[-1] for each in layer] if isinstance(layer, nn.ModuleList) else [layer]:
            spread(model, last, size, (mean, deviation))
    if dynamo:  # torch.export stops in batched_nms, which branches on the number of boxes
        torchvision.ops.boxes.batched_nms = _suppress_by_offsets
        for module in ("ssd", "retinanet", "fcos", "rpn", "roi_heads"):
            found = getattr(torchvision.models.detection, module)
            found.box_ops.batched_nms = _suppress_by_offsets
    return _export(_Detector(model), size, ["boxes", "scores", "labels"], dynamo=dynamo)


def make_ultralytics(name: str, size: int) -> onnx.ModelProto:
    """Return a detector of ultralytics with `nms=True`, by its own exporter."""
    from ultralytics import YOLO  # noqa: PLC0415

    torch.manual_seed(SEED)
    made = YOLO(f"{name}.yaml")
    calibrate(made.model, [read_pictures(size)])
    for branch in made.model.model[-1].cv3:
        spread(made.model, branch[-1], size, (-4.0, 1.0))
    with tempfile.TemporaryDirectory() as folder:
        made.model.pt_path = str(Path(folder, f"{name}.pt"))
        return onnx.load(made.export(format="onnx", imgsz=size, opset=_OPSET, simplify=False, nms=True))


class _Points(nn.Module):  # type: ignore[misc]
    """A network in the form of SuperPoint: points that no neighbour exceeds, the best of them, and descriptors."""

    def __init__(self, best: int | None) -> None:
        super().__init__()
        widths, self.best = (1, 32, 32, 64, 64), best
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, 1, 1) for a, b in pairwise(widths))
        self.logits, self.descriptors = nn.Conv2d(64, 65, 1), nn.Conv2d(64, 128, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return points [n, 2] as x and y, scores [n] and descriptors [n, 128]."""
        x = image[:1].mean(1, keepdim=True)
        for number, each in enumerate(self.convolutions):
            x = F.relu(each(x))
            x = F.max_pool2d(x, 2) if number < 3 else x
        scores = F.pixel_shuffle(F.softmax(self.logits(x), 1)[:, :-1], 8)
        highest = F.max_pool2d(scores, 9, 1, 4)
        scores = torch.where(scores == highest, scores, torch.zeros_like(scores))[0, 0]
        rows, columns = torch.nonzero(scores > 0.05).unbind(1)
        found = scores[rows, columns]
        if self.best is not None:
            found, order = found.topk(min(self.best, found.shape[0]))
            rows, columns = rows[order], columns[order]
        height, width = scores.shape
        points = torch.stack([columns, rows], 1).to(x.dtype)
        places = (points + 0.5) / torch.tensor([width / 2.0, height / 2.0]) - 1
        sampled = F.grid_sample(self.descriptors(x), places[None, None], align_corners=False)[0, :, 0]
        return points, found, F.normalize(sampled, dim=0).t()


def make_points(size: int) -> onnx.ModelProto:
    """Return a finder of points, by PyTorch's older exporter."""
    torch.manual_seed(SEED)
    model = _Points(50).eval()
    spread(model, model.logits, size, (0.0, 2.0))
    return _export(model, size, ["points", "scores", "descriptors"], dynamo=False)


def spread(model: nn.Module, last: nn.Module, size: int, wanted: tuple[float, float]) -> None:
    """Give the logits that a layer computes from photographs this mean and this deviation."""
    kept: list[torch.Tensor] = []
    hook = last.register_forward_hook(lambda _, __, output: kept.append(output))
    with torch.no_grad():
        model.eval()(read_pictures(size))
        values = torch.cat([each.flatten() for each in kept])
        scale = wanted[1] / values.std()
        last.weight.mul_(scale)
        last.bias.copy_((last.bias - values.mean()) * scale + wanted[0])
    hook.remove()


def _suppress_by_offsets(
    boxes: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor, overlap: float
) -> torch.Tensor:
    """Return the boxes that are left, as `batched_nms` does, without a branch."""
    from torchvision.ops import nms  # noqa: PLC0415

    return nms(boxes + labels.to(boxes)[:, None] * 4096, scores, overlap)


def _export(model: nn.Module, size: int, outputs: list[str], *, dynamo: bool) -> onnx.ModelProto:
    model.eval().requires_grad_(False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.onnx")
        options = {"dynamo": True} if dynamo else {"dynamo": False, "opset_version": _OPSET}
        picture = read_pictures(size)[:1]
        torch.onnx.export(model, (picture,), str(path), input_names=["image"], output_names=outputs, **options)
        return onnx.load(path)
