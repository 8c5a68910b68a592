"""A plain forward pass of darknet's networks in float64, loop by loop as darknet's C has it, with weights at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np


def convolve(x: np.ndarray, kernel: np.ndarray, padding: int, stride: int) -> np.ndarray:
    size, padded = kernel.shape[2], np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    height, width = ((length + 2 * padding - size) // stride + 1 for length in x.shape[1:])
    out = np.zeros((kernel.shape[0], height, width))
    for row in range(height):
        for column in range(width):
            patch = padded[:, row * stride : row * stride + size, column * stride : column * stride + size]
            out[:, row, column] = (kernel * patch).sum(axis=(1, 2, 3))
    return out


def pool(x: np.ndarray, size: int, stride: int, padding: int | None = None) -> np.ndarray:
    """Compute `forward_maxpool_layer`: the padding is size - 1 if none is given, the offset minus half of it."""
    padding = size - 1 if padding is None else padding
    offset = -(padding // 2)
    height, width = ((length + padding - size) // stride + 1 for length in x.shape[1:])
    out = np.full((x.shape[0], height, width), -np.inf)
    for row, column, i, j in np.ndindex(height, width, size, size):
        y, z = offset + row * stride + i, offset + column * stride + j
        if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
            out[:, row, column] = np.maximum(out[:, row, column], x[:, y, z])
    return out


def reorganise(x: np.ndarray, stride: int) -> np.ndarray:
    """Compute `reorg_cpu` on the source's sides, forward being 0, as `forward_reorg_layer` calls it."""
    c, h, w = x.shape
    flat, out, out_c = x.ravel(), np.zeros(x.size), c // stride**2
    for k, j, i in np.ndindex(c, h, w):
        in_index = i + w * (j + h * k)
        c2, offset = k % out_c, k // out_c
        w2, h2 = i * stride + offset % stride, j * stride + offset // stride
        out[in_index] = flat[w2 + w * stride * (h2 + h * stride * c2)]
    return out.reshape(c * stride**2, h // stride, w // stride)


def logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda x: x,
    "leaky": lambda x: np.where(x > 0, x, 0.1 * x),
    "relu": lambda x: x * (x > 0),
    "logistic": logistic,
    "swish": lambda x: x * logistic(x),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
}


@dataclass
class Pass:
    """A forward pass: the output of each layer, the rows of boxes, and the weights that were drawn, in their order."""

    picture: np.ndarray
    generator: np.random.Generator
    outputs: list[np.ndarray] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)

    def draw(self, low: float, high: float, *shape: int) -> np.ndarray:
        """Return weights, as a file of float32 holds them."""
        self.weights.append(self.generator.uniform(low, high, shape).astype(np.float32))
        return self.weights[-1].astype(np.float64)

    def convolve(self, x: np.ndarray, options: dict[str, str]) -> np.ndarray:
        """Compute `forward_convolutional_layer`."""
        count, size, groups = int(options["filters"]), int(options.get("size", "1")), int(options.get("groups", "1"))
        padding = size // 2 if int(options.get("pad", "0")) else int(options.get("padding", "0"))
        normalised = int(options.get("batch_normalize", "0"))
        bias = self.draw(-0.3, 0.3, count)
        scale, mean, variance = np.ones(count), np.zeros(count), np.ones(count) - 0.00001
        if normalised:
            scale, mean, variance = self.draw(0.7, 1.3, count), self.draw(-0.2, 0.2, count), self.draw(0.5, 1.5, count)
        channels = x.shape[0] // groups
        bound = (3 / (channels * size * size)) ** 0.5
        kernels = np.split(self.draw(-bound, bound, count, channels, size, size), groups)
        stride = int(options.get("stride", "1"))
        parts = zip(np.split(x, groups), kernels, strict=True)
        out = np.concatenate([convolve(part, kernel, padding, stride) for part, kernel in parts])
        out = (out - mean[:, None, None]) / np.sqrt(variance + 0.00001)[:, None, None] * scale[:, None, None]
        return ACTIVATIONS[options.get("activation", "logistic")](out + bias[:, None, None])

    def find(self, options: dict[str, str], key: str) -> list[np.ndarray]:
        """Return the outputs of earlier layers."""
        places = [int(each) for each in options[key].split(",")]
        return [self.outputs[place if place >= 0 else len(self.outputs) + place] for place in places]

    def decode(self, kind: str, x: np.ndarray, options: dict[str, str]) -> None:
        """Compute `get_yolo_box` or `get_region_box` at each place, in the picture's pixels."""
        anchors = np.array([float(each) for each in options["anchors"].split(",")]).reshape(-1, 2)
        high, wide = self.picture.shape[1:]
        if kind == "yolo":
            every = ",".join(str(each) for each in range(int(options["num"])))
            anchors = anchors[[int(each) for each in options.get("mask", every).split(",")]]
        _, height, width = x.shape
        size, scale = 5 + int(options["classes"]), float(options.get("scale_x_y", "1"))
        for row, column, index in np.ndindex(height, width, len(anchors)):
            values = x[index * size : index * size + size, row, column]
            inside = logistic(values[:2]) * scale - 0.5 * (scale - 1)
            centre = (np.array([column, row]) + inside) / [width, height] * [wide, high]
            extent = np.exp(values[2:4]) * anchors[index]
            if kind == "region":
                extent = extent / [width, height] * [wide, high]
            classes = logistic(values[5:])
            if options.get("softmax", "0") == "1":
                classes = np.exp(values[5:]) / np.exp(values[5:]).sum()
            self.rows.append([*centre, *extent, float(logistic(values[4])), *classes])

    def run(self, kind: str, options: dict[str, str]) -> np.ndarray:
        """Compute one layer."""
        x = self.outputs[-1] if self.outputs else self.picture
        if kind in ("yolo", "region"):
            self.decode(kind, x, options)
        if kind in ("yolo", "region", "dropout"):
            return x
        if kind == "route":
            groups, group = int(options.get("groups", "1")), int(options.get("group_id", "0"))
            return np.concatenate([np.split(each, groups)[group] for each in self.find(options, "layers")])
        if kind == "shortcut":
            return ACTIVATIONS[options.get("activation", "linear")](sum(self.find(options, "from"), x))
        if kind == "maxpool":
            stride = int(options.get("stride", "1"))
            padding = int(options["padding"]) if "padding" in options else None
            return pool(x, int(options.get("size", stride)), stride, padding)
        simple: dict[str, Callable[[], np.ndarray]] = {
            "convolutional": lambda: self.convolve(x, options),
            "reorg": lambda: reorganise(x, int(options.get("stride", "1"))),
            "upsample": lambda: x.repeat(int(options.get("stride", "2")), 1).repeat(int(options.get("stride", "2")), 2),
            "avgpool": lambda: x.mean(axis=(1, 2), keepdims=True),
            "softmax": lambda: np.exp(x) / np.exp(x).sum(),
        }
        return simple[kind]()


def list_sections(cfg: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the kind and the options of each section of a .cfg file without comments."""
    for part in cfg.split("[")[1:]:
        kind, _, lines = part.partition("]")
        pairs = (line.split("=") for line in lines.split("\n") if "=" in line)
        yield kind, {key.strip(): value.strip() for key, value in pairs}


def run_forward(cfg: str, picture: np.ndarray, seed: int = 0) -> Pass:
    """Return the pass of a network [channels, height, width]."""
    done = Pass(picture.astype(np.float64), np.random.default_rng(seed))
    for kind, options in list(list_sections(cfg))[1:]:
        done.outputs.append(done.run(kind, options))
    return done
