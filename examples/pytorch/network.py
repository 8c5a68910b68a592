"""A small network in PyTorch, and the function that converts it to ONNX: `source: export:` of models.yaml."""  # noqa: INP001 - a script

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import nn

SIZE = 96


class Separable(nn.Sequential):
    """A 3 x 3 convolution of each channel, then a 1 x 1 convolution across them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        depthwise = nn.Conv2d(channels, channels, 3, stride, padding=1, groups=channels, bias=False)
        pointwise = nn.Conv2d(channels, out, 1, bias=False)
        super().__init__(depthwise, nn.BatchNorm2d(channels), nn.ReLU6(), pointwise, nn.BatchNorm2d(out), nn.ReLU6())


class Network(nn.Module):
    """A classifier: pictures [1, 3, 96, 96] to one score for each class."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Separable(width << i, width << (i + 1), 2) for i in range(3))
        self.keep = Separable(width << 3, width << 3, 1)
        self.head = nn.Linear(width << 3, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        x = torch.relu(self.stem(image))
        for block in self.blocks:
            x = block(x)
        x = x + self.keep(x)
        return self.head(x.mean((2, 3)))


def build(width: int, classes: int, seed: int, weights: Path | None = None) -> Network:
    """Return the network with weights from a file of `torch.save(network.state_dict(), …)`, or seeded random ones."""
    torch.manual_seed(seed)
    network = Network(width, classes)
    if weights is not None:
        network.load_state_dict(torch.load(weights, weights_only=True))
    return network.eval()


def make(width: int, classes: int, seed: int, weights: Path | None = None) -> onnx.ModelProto:
    """Return the network as ONNX, by torch.export."""
    image = torch.zeros(1, 3, SIZE, SIZE)
    program = torch.onnx.export(
        build(width, classes, seed, weights),
        (image,),
        input_names=["image"],
        output_names=["scores"],
        dynamo=True,
    )
    return program.model_proto
