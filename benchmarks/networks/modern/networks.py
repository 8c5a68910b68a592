"""Today's networks with random weights, as PyTorch's newer exporter writes them.

They need PyTorch and the libraries that define them:

    pip install '.[torch]' torchvision==0.29.1 timm==1.0.31 transformers==5.24.0
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import torch
from torch import nn

SEED = 0
Shapes = Mapping[str, Sequence[int]]


class _Chosen(nn.Module):  # type: ignore[misc]
    """A model of which only the named outputs are returned."""

    def __init__(self, model: nn.Module, outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.model(*inputs)
        return tuple(results[name] for name in self.outputs)


def make_timm(name: str, size: int = 224) -> onnx.ModelProto:
    """Return a classifier of timm for a square picture."""
    import timm  # noqa: PLC0415

    torch.manual_seed(SEED)
    return _export(timm.create_model(name, num_classes=100), {"image": [1, 3, size, size]}, ["logits"])


def make_torchvision(name: str, inputs: Shapes, outputs: Sequence[str] = ()) -> onnx.ModelProto:
    """Return a network of torchvision; ``outputs`` are keys of the dict that it returns, if it returns one."""
    import torchvision  # noqa: PLC0415

    torch.manual_seed(SEED)
    options = {"weights": None, "weights_backbone": None} if outputs else {"weights": None}
    model = torchvision.models.get_model(name, **options)
    return _export(_Chosen(model, outputs) if outputs else model, inputs, outputs or ["result"])


def make_raft(height: int, width: int, steps: int) -> onnx.ModelProto:
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
    return _export(Last(), {"first": shape, "second": shape}, ["flow"])


def make_transformers(
    model: str, inputs: Shapes, outputs: Sequence[str], config: Mapping[str, Any] | None = None
) -> onnx.ModelProto:
    """Return a network of transformers with its configuration's defaults but for ``config``."""
    os.environ["TRANSFORMERS_DISABLE_TORCH_CHECK"] = "1"  # its checks of shapes have no ONNX operator
    import transformers  # noqa: PLC0415

    torch.manual_seed(SEED)
    kind = getattr(transformers, model)
    made = kind(kind.config_class(**(config or {})))
    return _export(_Chosen(made, outputs), inputs, outputs)


def _export(model: nn.Module, inputs: Shapes, outputs: Sequence[str]) -> onnx.ModelProto:
    data = tuple(torch.randn(tuple(shape)) for shape in inputs.values())
    _calibrate(model, [torch.randn((2 * shape[0], *shape[1:])) for shape in inputs.values()])
    program = torch.onnx.export(
        model.eval().requires_grad_(False),
        data,
        dynamo=True,
        input_names=list(inputs),
        output_names=list(outputs),
        verbose=False,
    )
    assert program is not None
    return program.model_proto


def _calibrate(model: nn.Module, data: Sequence[torch.Tensor]) -> None:
    """Let batch normalisations learn their data's mean and variance, as training would have."""
    norms = [each for each in model.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)]  # noqa: SLF001
    if not norms:
        return
    model.eval()
    for each in norms:
        each.train()
        each.momentum = None
    with torch.no_grad():
        model(*data)
