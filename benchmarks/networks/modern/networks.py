"""Today's networks with random weights, as PyTorch's newer exporter writes them.

They need PyTorch and the libraries that define them:

    pip install '.[torch]' torchvision==0.29.1 timm==1.0.31 transformers==5.24.0 ultralytics==8.4.190
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import torch
from calibration import SEED, calibrate, read_pictures
from torch import nn

Shapes = Mapping[str, Sequence[int]]


class Network(NamedTuple):
    """A module with the shapes of its inputs and the names of its outputs."""

    module: nn.Module
    inputs: Shapes
    outputs: Sequence[str]


def _exported(build: Callable[..., Network]) -> Callable[..., onnx.ModelProto]:
    """Return the function that exports what ``build`` returns; its ``__wrapped__`` is ``build``."""

    @functools.wraps(build)
    def make(*args: Any, **arguments: Any) -> onnx.ModelProto:
        return _export(build(*args, **arguments))

    return make


class _Chosen(nn.Module):  # type: ignore[misc]
    """A model that returns only the named outputs."""

    def __init__(self, model: nn.Module, outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.model(*inputs)
        return tuple(results[name] for name in self.outputs)


@_exported
def make_timm(name: str, size: int = 224) -> Network:
    """Return a classifier of timm for a square picture."""
    import timm  # noqa: PLC0415

    torch.manual_seed(SEED)
    return _calibrate(timm.create_model(name, num_classes=100), {"image": [1, 3, size, size]}, ["logits"])


@_exported
def make_torchvision(name: str, inputs: Shapes, outputs: Sequence[str] = ()) -> onnx.ModelProto:
    """Return a network of torchvision; ``outputs`` are keys of the dict that it returns, if it returns one."""
    import torchvision  # noqa: PLC0415

    torch.manual_seed(SEED)
    options = {"weights": None, "weights_backbone": None} if outputs else {"weights": None}
    model = torchvision.models.get_model(name, **options)
    return _calibrate(_Chosen(model, outputs) if outputs else model, inputs, outputs or ["result"])


@_exported
def make_raft(height: int, width: int, steps: int) -> Network:
    """Return torchvision's small RAFT, the optical flow between two pictures after ``steps`` refinements."""
    import torchvision  # noqa: PLC0415

    class Last(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = torchvision.models.optical_flow.raft_small(weights=None)

        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            flow: torch.Tensor = self.model(first, second, num_flow_updates=steps)[-1]
            return flow

    torch.manual_seed(SEED)
    shape = [1, 3, height, width]
    return _calibrate(Last(), {"first": shape, "second": shape}, ["flow"])


@_exported
def make_transformers(
    model: str, inputs: Shapes, outputs: Sequence[str], config: Mapping[str, Any] | None = None
) -> Network:
    """Return a network of transformers with its configuration's defaults but for ``config``."""
    os.environ["TRANSFORMERS_DISABLE_TORCH_CHECK"] = "1"  # its checks of shapes have no ONNX operator
    import transformers  # noqa: PLC0415

    torch.manual_seed(SEED)
    kind = getattr(transformers, model)
    made = kind(kind.config_class(**(config or {})))
    return _calibrate(_Chosen(made, outputs), inputs, outputs)


def make_ultralytics(name: str, size: int = 640) -> onnx.ModelProto:
    """Return a detector of ultralytics for a square picture, by its own exporter.

    The logits of each class get a mean of -4 and a deviation of 1, so that few boxes have high scores.
    """
    from ultralytics import YOLO  # noqa: PLC0415

    torch.manual_seed(SEED)
    made = YOLO(f"{name}.yaml")
    calibrate(made.model, [read_pictures(size)])
    for branch in made.model.model[-1].cv3:  # a branch of logits for each grid
        _centre(made.model, branch[-1], size)
    with tempfile.TemporaryDirectory() as folder:
        made.model.pt_path = str(Path(folder, f"{name}.pt"))
        return onnx.load(made.export(format="onnx", imgsz=size, opset=17, simplify=False))


def _centre(model: nn.Module, last: nn.Conv2d, size: int) -> None:
    """Give the logits that a convolution of a detector computes a mean of -4 and a deviation of 1."""
    kept: list[torch.Tensor] = []
    hook = last.register_forward_hook(lambda _, __, output: kept.append(output))
    with torch.no_grad():
        model.eval()(read_pictures(size))
        mean, deviation = kept[0].mean((0, 2, 3)), kept[0].std((0, 2, 3))
        last.weight /= deviation[:, None, None, None]
        last.bias.copy_((last.bias - mean) / deviation - 4)
    hook.remove()


def _calibrate(model: nn.Module, inputs: Shapes, outputs: Sequence[str]) -> Network:
    calibrate(model, [torch.randn((2 * shape[0], *shape[1:])) for shape in inputs.values()])
    return Network(model.eval().requires_grad_(False), inputs, outputs)


def _export(network: Network) -> onnx.ModelProto:
    program = torch.onnx.export(
        network.module,
        tuple(torch.randn(tuple(shape)) for shape in network.inputs.values()),
        dynamo=True,
        input_names=list(network.inputs),
        output_names=list(network.outputs),
        verbose=False,
    )
    assert program is not None
    return program.model_proto
