"""Small networks of PyTorch with current operators, for trying `source: {path: net.pt2}`.

Every one has a few thousand seeded weights, and computes in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it


class Residual(nn.Module):  # type: ignore[misc]
    """Convolutions with batch normalisation and a sum around them, as in ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(16, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Conv2d(16, 16, 3, 1, 1)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Return the scores."""
        x = self.stem(image)
        x = F.max_pool2d(F.relu(x + self.body(x)), 3, 2, 1)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Mobile(nn.Module):  # type: ignore[misc]
    """Depthwise convolutions, squeeze-and-excite and hard activations, as in MobileNetV3."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(3, 24, 1), nn.BatchNorm2d(24), nn.Hardswish())
        self.depth = nn.Sequential(nn.Conv2d(24, 24, 5, 2, 2, groups=24), nn.BatchNorm2d(24), nn.SiLU())
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 8, 1), nn.ReLU6(), nn.Conv2d(8, 24, 1), nn.Hardsigmoid()
        )
        self.project = nn.Conv2d(24, 16, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return a map of features, and their mean."""
        x = self.depth(self.expand(image))
        x = self.project(x * self.squeeze(x))
        return x, x.mean((2, 3))


class VisionTransformer(nn.Module):  # type: ignore[misc]
    """Patches, a class token and scaled_dot_product_attention, as timm writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.places = nn.Parameter(torch.randn(1, 17, 32))
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, image: Tensor) -> Tensor:
        """Return the class token."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        batch, count, width = x.shape
        q, k, v = self.qkv(self.first(x)).reshape(batch, count, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, count, width)
        x = x + self.out(mixed)
        return (x + self.mlp(self.second(x)))[:, 0]


class Decoder(nn.Module):  # type: ignore[misc]
    """Token embeddings, rotated positions, RMS norms and causal attention of grouped heads, as language models have."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.norm = nn.RMSNorm(32)
        self.q, self.kv = nn.Linear(32, 32, bias=False), nn.Linear(32, 32, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*each, bias=False) for each in ((32, 64), (32, 64), (64, 32)))
        self.register_buffer("frequencies", 1.0 / 100 ** (torch.arange(0, 8, 2) / 8))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the scores of the next token at every place."""
        x = self.embed(tokens)
        batch, count, _ = x.shape
        angles = torch.outer(torch.arange(count, device=x.device), self.frequencies)
        angles = torch.cat([angles, angles], -1)
        normed = self.norm(x)
        q = self._turn(self.q(normed).view(batch, count, 4, 8).transpose(1, 2), angles)
        k, v = self.kv(normed).view(batch, count, 2, 2, 8).permute(2, 0, 3, 1, 4)
        k = self._turn(k, angles)
        causal = torch.ones(count, count, dtype=torch.bool, device=x.device).tril()
        seen = causal & mask[:, None, None, :].bool() | torch.eye(count, dtype=torch.bool, device=x.device)
        mixed = F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), attn_mask=seen)
        x = x + mixed.transpose(1, 2).reshape(batch, count, 32)
        x = x + self.down(F.silu(self.gate(x)) * self.up(x))
        return x @ self.embed.weight.T

    @staticmethod
    def _turn(x: Tensor, angles: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-right, left], -1) * angles.sin()


class Recurrent(nn.Module):  # type: ignore[misc]
    """A convolution over time, a bidirectional LSTM of two layers and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 16, 3, padding=1)
        self.lstm = nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(24, 10, batch_first=True)

    def forward(self, sound: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities at every step, and the last state."""
        x = self.conv(sound).relu().transpose(1, 2)
        x, _ = self.lstm(x)
        x, state = self.gru(x)
        return F.log_softmax(x, -1), state


class Upsampling(nn.Module):  # type: ignore[misc]
    """Down and up again: strided and transposed convolutions, interpolate, pixel_shuffle, padding of three modes."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, 2)
        self.norm = nn.GroupNorm(4, 16)
        self.up = nn.ConvTranspose2d(16, 8, 4, 2, 1, groups=2)
        self.shuffle = nn.Conv2d(16, 32, 1)
        self.last = nn.Conv2d(24, 2, 3)

    def forward(self, image: Tensor) -> Tensor:
        """Return a mask."""
        x = F.leaky_relu(self.norm(self.down(F.pad(image, (1, 0, 1, 0), mode="reflect"))), 0.1)
        size = image.shape[-2:]
        wide = F.interpolate(x, size=size, mode="bilinear", align_corners=False)[:, :8]
        fine = F.pixel_shuffle(self.shuffle(x), 2)
        near = F.interpolate(self.up(x), scale_factor=0.5, mode="nearest")
        near = F.interpolate(near, size=size, mode="bicubic", align_corners=True)
        return self.last(F.pad(torch.cat([wide, fine, near], 1), (1, 1, 1, 1), mode="replicate")).sigmoid()


class Windows(nn.Module):  # type: ignore[misc]
    """Shifted windows with a bias looked up by relative position, as in Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.bias = nn.Parameter(torch.randn(49, 2))
        places = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("index", apart[..., 0] * 7 + apart[..., 1])

    def forward(self, x: Tensor) -> Tensor:
        """Return the features, mixed in each window."""
        rolled = torch.roll(x, (-2, -2), (1, 2))
        batch, height, width, depth = x.shape
        cut = rolled.view(batch, height // 4, 4, width // 4, 4, depth).transpose(2, 3).reshape(-1, 16, depth)
        q, k, v = self.qkv(cut).view(-1, 16, 3, 2, depth // 2).permute(2, 0, 3, 1, 4)
        scores = torch.einsum("bhid,bhjd->bhij", F.normalize(q, dim=-1), F.normalize(k, dim=-1)) * 5
        scores = scores + self.bias[self.index.view(-1)].view(16, 16, 2).permute(2, 0, 1)
        mixed = self.out(torch.einsum("bhij,bhjd->bihd", scores.softmax(-1), v).reshape(-1, 16, depth))
        back = mixed.view(batch, height // 4, width // 4, 4, 4, depth).transpose(2, 3).reshape(x.shape)
        return x + torch.roll(back, (2, 2), (1, 2))


class Indexing(nn.Module):  # type: ignore[misc]
    """Rows that are written and read by computed indices: index_put, scatter, gather, topk, masked_fill, where."""

    def forward(self, x: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """Return several views of the rows."""
        put = x.clone()
        put[:, rows] = x[:, :4] * 2
        put.index_put_((torch.zeros(1, dtype=torch.long, device=x.device), rows[:1]), x[0, 5:6], accumulate=True)
        values, places = x.topk(3, dim=1)
        spread = torch.zeros_like(x).scatter_add(1, places, values)
        low = x.masked_fill(x < 0, float("-inf")).logsumexp(1)
        return {
            "put": put,
            "spread": spread,
            "picked": torch.gather(x, 1, places),
            "low": torch.where(torch.isinf(low), torch.zeros_like(low), low),
            "order": x.sum(-1).argsort(1),
            "running": x.cumsum(1).clamp(-1, 1),
        }


class Sampling(nn.Module):  # type: ignore[misc]
    """A grid that is computed and sampled, deformed reference points and a mixture of experts, as detectors have."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.place = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 2, 1)
        self.gate, self.experts = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8, 8) * 0.3)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return the samples, and boxes."""
        x = F.softplus(self.conv(image))
        rows, columns = (torch.linspace(-1, 1, size, device=x.device) for size in x.shape[-2:])
        grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1)
        grid = grid + self.place(x).tanh().permute(0, 2, 3, 1) * 0.1
        sampled = F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        pooled = sampled.amax((2, 3))
        weights, chosen = self.gate(pooled).softmax(-1).topk(2)
        mixed = (torch.einsum("bi,bkio->bko", pooled, self.experts[chosen]) * weights[..., None]).sum(1)
        corner, size = mixed.sigmoid().split(4, -1)
        return sampled, torch.cat([corner - size / 2, corner + size / 2], -1)


class Sound(nn.Module):  # type: ignore[misc]
    """Frames of a signal by unfold, a Fourier transform as a product, and causal dilated convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        turns = torch.outer(torch.arange(17), torch.arange(32)) * (2 * torch.pi / 32)
        self.register_buffer("basis", torch.cat([turns.cos(), turns.sin()]))
        self.conv = nn.Conv1d(17, 8, 3, dilation=2)
        self.slope = nn.PReLU(8)

    def forward(self, signal: Tensor) -> Tensor:
        """Return features of every frame."""
        frames = signal.unfold(-1, 32, 16) * self.window
        real, imaginary = (frames @ self.basis.T).chunk(2, -1)
        power = (real**2 + imaginary**2).clamp_min(1e-6).log10().transpose(1, 2)
        power = (power - power.mean(-1, keepdim=True)) / (power.std(-1, keepdim=True) + 1e-3)
        return self.slope(self.conv(F.pad(power, (4, 0)))).std((1, 2), unbiased=True) + power.abs().amax((1, 2))


class Standard(nn.Module):  # type: ignore[misc]
    """PyTorch's own layers of attention: an encoder with a padding mask, and MultiheadAttention across."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")
        self.across = nn.MultiheadAttention(16, 2, batch_first=True)
        self.queries = nn.Parameter(torch.randn(5, 16))

    def forward(self, x: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Return the results of five queries, and their attention weights."""
        x = self.encoder(x, src_key_padding_mask=padding)
        found, weights = self.across(self.queries.expand(x.shape[0], -1, -1), x, x, key_padding_mask=padding)
        return found, weights


class Convnext(nn.Module):  # type: ignore[misc]
    """Large depthwise windows, channels last in between, and a scale of each layer, as in ConvNeXt."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depth = nn.Conv2d(3, 16, 4, 4), nn.Conv2d(16, 16, 7, padding=3, groups=16)
        self.norm = nn.LayerNorm(16, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(approximate="tanh"), nn.Linear(64, 16))
        self.scale = nn.Parameter(torch.full((16,), 0.5))

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of every image."""
        x = self.stem(images)
        y = self.scale * self.mlp(self.norm(self.depth(x).permute(0, 2, 3, 1)))
        return F.avg_pool2d(x + y.permute(0, 3, 1, 2), 3, 2, 1, count_include_pad=False)


@dataclass(frozen=True)
class TorchNetwork:
    """A module, its export inputs, and their open dimensions."""

    module: Callable[[], Any]
    inputs: Callable[[], tuple[Any, ...]]
    open: Callable[[], Any] = field(default=lambda: None)

    def save(self, path: Path) -> Any:
        """Write the program; return it."""
        torch.manual_seed(0)
        module, inputs = self.module().eval(), self.inputs()
        with torch.no_grad():
            program = torch.export.export(module, inputs, dynamic_shapes=self.open())
        torch.export.save(program, path)
        return program


def _image(*shape: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.rand(shape) * 2 - 1,)


def _dim(name: str, low: int = 1, high: int = 64) -> Any:
    return torch.export.Dim(name, min=low, max=high)


NETWORKS = {
    "residual": TorchNetwork(Residual, _image(1, 3, 32, 32)),
    "mobile": TorchNetwork(Mobile, _image(1, 3, 24, 24)),
    "vision transformer": TorchNetwork(VisionTransformer, _image(1, 3, 32, 32)),
    "vision transformer, open batch": TorchNetwork(VisionTransformer, _image(3, 3, 32, 32), lambda: ({0: _dim("n")},)),
    "decoder": TorchNetwork(Decoder, lambda: (torch.randint(0, 50, (1, 9)), torch.ones(1, 9, dtype=torch.long))),
    "decoder, open length": TorchNetwork(
        Decoder,
        lambda: (torch.randint(0, 50, (2, 9)), torch.ones(2, 9, dtype=torch.long)),
        lambda: ({1: (length := _dim("length", 2))}, {1: length}),
    ),
    "recurrent": TorchNetwork(Recurrent, _image(1, 8, 12)),
    "upsampling": TorchNetwork(Upsampling, _image(1, 3, 20, 24)),
    "windows": TorchNetwork(Windows, _image(1, 8, 8, 16)),
    "indexing": TorchNetwork(Indexing, lambda: (torch.rand(2, 8, 6) * 2 - 1, torch.tensor([1, 3, 0, 6]))),
    "sampling": TorchNetwork(Sampling, _image(2, 3, 10, 12)),
    "sound": TorchNetwork(Sound, _image(1, 320)),
    "standard": TorchNetwork(
        Standard, lambda: (torch.rand(2, 7, 16) * 2 - 1, torch.arange(7)[None] >= torch.tensor([[7], [5]]))
    ),
    "convnext": TorchNetwork(Convnext, _image(1, 3, 64, 64)),
    "convnext, half": TorchNetwork(lambda: Convnext().half(), lambda: (torch.rand(1, 3, 64, 64).half(),)),
}
