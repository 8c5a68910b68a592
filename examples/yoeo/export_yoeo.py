"""YOEO as ONNX from the files of its training, the configuration and a checkpoint: `source: export:` of models.yaml."""  # noqa: INP001 - a script

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from yoeo.models import load_model  # YOEO's own package: https://github.com/bit-bots/YOEO

SIZE = 416


def make(cfg: Path, weights: Path) -> onnx.ModelProto:
    """Return the network, with the names of YOEO's own export; ``weights`` is a .pth, or darknet's .weights."""
    network = load_model(str(cfg), str(weights)).cpu().eval()
    picture = torch.zeros(1, 3, SIZE, SIZE)
    network(picture)  # the first call makes its grids, which are then constants
    program = torch.onnx.export(
        network,
        (picture,),
        input_names=["InputLayer"],
        output_names=["Detections", "Segmentations"],
        dynamo=True,
    )
    return program.model_proto
