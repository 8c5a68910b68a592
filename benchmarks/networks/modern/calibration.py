"""Statistics for networks with random weights, from pictures, as training would have left them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

SEED = 0
PHOTOGRAPH = Path(__file__).resolve().parents[3] / "examples" / "detect" / "astronaut.png"


def read_pictures(size: int) -> torch.Tensor:
    """Return a photograph, upright, mirrored, darker and letterboxed, with values from 0 to 1 [4, 3, size, size]."""
    with Image.open(PHOTOGRAPH) as opened:
        whole, flat = (opened.convert("RGB").resize((size, height)) for height in (size, size // 2))
    boxed = Image.new("RGB", (size, size), (114, 114, 114))
    boxed.paste(flat, (0, size // 4))
    upright, letterboxed = (torch.tensor(np.array(each)).permute(2, 0, 1) / 255 for each in (whole, boxed))
    return torch.stack([upright, upright.flip(2), upright / 2, letterboxed])


def calibrate(model: nn.Module, data: Sequence[torch.Tensor]) -> None:
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
