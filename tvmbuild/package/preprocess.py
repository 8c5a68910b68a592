"""Conversion of a picture into an input tensor, as in the model's training.

The steps are resizing, the order of the colours, a scale, and each colour's mean and standard deviation.
`cpp/parts/pictures.h` and `cpp/tvmbuild.cpp` do the same with equal bits: change them too.
"""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tvmbuild.base.file_kinds import recognise_wrapping
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TakesInputs, TensorInfo

if TYPE_CHECKING:
    from PIL import Image

Picture: TypeAlias = "Image.Image | np.ndarray | Path | str"
"""A picture: an image of Pillow, a uint8 array [height, width, 3] (RGB) or [height, width] (grey), or a file's path."""

_CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1}


def preprocess_picture(info: TakesInputs, picture: Picture, name: str | None = None) -> np.ndarray:
    """Convert a picture into the tensor for an input, by the package's rules.

    ``name`` may be None, or the name of the input that the rules are for. Raises TvmbuildError if there are no rules
    for this input, if they do not fit its shape, or if the picture cannot be read.
    """
    rules, tensor = find_rules(info, name)
    height, width, channels = find_sizes(info, rules, tensor)
    image = open_picture(picture).convert("L" if rules.color == "gray" else "RGB")
    pixels = np.asarray(_fit(image, width, height, rules)).reshape(height, width, channels)
    if rules.color == "bgr":
        pixels = pixels[:, :, ::-1]
    values = np.stack([make_table(rules, channel)[pixels[:, :, channel]] for channel in range(channels)], axis=-1)
    if np.dtype(tensor.dtype).kind in "iu":
        values = np.rint(values)
    ordered = values.transpose(2, 0, 1) if rules.layout == "NCHW" else values
    return np.ascontiguousarray(ordered.reshape(tensor.shape), tensor.dtype)


def first_line(error: Exception) -> str:
    """Return the reason of an error in a few words: the system's text, or the first line of the error's text."""
    return str(getattr(error, "strerror", None) or (str(error) or type(error).__name__).splitlines()[0])


def find_rules(info: TakesInputs, name: str | None = None) -> tuple[Preprocess, TensorInfo]:
    """Return the preprocessing rules of a model, and the input that they are for.

    Raises TvmbuildError if the model has no rules, or if ``name`` is given and is another input.
    """
    rules = info.preprocess
    if rules is None:
        raise TvmbuildError(
            f"{info.model} does not say how a picture becomes its input",
            "give an array, or add `preprocess` to the model in models.yaml and build it again",
        )
    known = {tensor.name: tensor for tensor in info.inputs}
    own = rules.input or (info.inputs[0].name if len(info.inputs) == 1 else None)
    if own not in known:
        raise TvmbuildError(
            f"{info.model} has the inputs {', '.join(known)} and does not say which of them is a picture",
            "add `input` to its `preprocess` in models.yaml and build it again",
        )
    if name not in (None, own):
        raise TvmbuildError(f"the input of {info.model} that a picture becomes is {own}, not {name}")
    return rules, known[own]


def find_sizes(info: TakesInputs, rules: Preprocess, tensor: TensorInfo) -> tuple[int, int, int]:
    """Return height, width and channels of a tensor [1, C, H, W] or [C, H, W], or of one with the channels last.

    Raises TvmbuildError if it has another form, or another number of channels than the rules' colours.
    """
    wanted = _CHANNELS[rules.color]
    shape = tensor.shape[1:] if len(tensor.shape) == 4 and tensor.shape[0] == 1 else tensor.shape
    if len(shape) == 3:
        channels, height, width = shape if rules.layout == "NCHW" else (shape[2], *shape[:2])
        if channels == wanted:
            return height, width, channels
    raise TvmbuildError(
        f"the input {tensor.name} of {info.model} is {list(tensor.shape)}: no {rules.color} picture in {rules.layout}",
        "correct `color`, `layout` or `input` of its `preprocess` in models.yaml and build it again",
    )


def _import_pillow() -> Any:
    from PIL import Image  # noqa: PLC0415 - a session without pictures needs no Pillow: 40 ms, 3 MB

    return Image


def open_picture(picture: Picture) -> Image.Image:
    """Return a picture as an image of Pillow. Raises TvmbuildError if it cannot be read as one, or has no pixels."""
    image = _open_picture(picture)
    if 0 in image.size:
        raise TvmbuildError(f"the picture is empty: {image.height} by {image.width} pixels", "give one with pixels")
    return image


def _open_picture(picture: Picture) -> Image.Image:
    pillow = _import_pillow()
    if isinstance(picture, pillow.Image):
        return _narrow(picture)
    if isinstance(picture, np.ndarray):
        if picture.dtype != np.uint8 or picture.ndim not in (2, 3) or (picture.ndim == 3 and picture.shape[2] != 3):
            found = f"{picture.dtype} {list(picture.shape)}"
            raise TvmbuildError(f"a picture is uint8 [height, width, 3] or [height, width], got {found}")
        image: Image.Image = pillow.fromarray(picture)
        return image
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(picture) as image:
                image.load()
                return _narrow(image)
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        kind = recognise_wrapping(Path(picture)) if isinstance(picture, str | Path) else None
        reason = f"it is {kind.name}" if kind else first_line(error)
        remedy = kind.remedy if kind else "give a whole one, PNG or JPEG, or leave it out"
        raise TvmbuildError(f"{picture} cannot be read as a picture: {reason}", remedy) from error
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise TvmbuildError(f"{picture} is too large: {error}") from error


def _narrow(image: Image.Image) -> Image.Image:
    """Convert a 16-bit grey image to 8 bits by its upper bytes, because Pillow's `convert` would clip the values.

    Other images stay as they are.
    """
    if image.mode.startswith("I;16"):
        narrow: Image.Image = _import_pillow().fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return narrow
    return image


@dataclass(frozen=True)
class Fit:
    """The place of a resized picture in the tensor, in the tensor's pixels. ``crop`` has a negative left or top."""

    left: int
    top: int
    width: int
    height: int


def find_fit(rules: Preprocess, picture: tuple[int, int], tensor: tuple[int, int]) -> Fit:
    """Return the place of a picture of this width and height in a tensor of this width and height.

    `stretch` changes the proportions, `letterbox` leaves borders, and `crop` cuts off borders like torchvision's
    Resize and CenterCrop, and like timm with ``crop_pct``.
    """
    (across, down), (width, height) = picture, tensor
    if rules.resize == "stretch":
        return Fit(0, 0, width, height)
    wide = width * down <= height * across  # in proportion wider than the tensor
    along_width = wide == (rules.resize == "letterbox")
    if rules.resize == "crop":
        width, height = (math.floor(side / rules.crop_pct) for side in tensor)
    across_first, down_first = (width, max(1, down * width // across)), (max(1, across * height // down), height)
    size = across_first if along_width else down_first
    if rules.resize == "crop":
        return Fit(-round((size[0] - tensor[0]) / 2), -round((size[1] - tensor[1]) / 2), *size)
    if rules.align == "top-left":
        return Fit(0, 0, *size)
    return Fit((width - size[0]) // 2, (height - size[1]) // 2, *size)


def _fit(image: Image.Image, width: int, height: int, rules: Preprocess) -> Image.Image:
    """Return the picture in this width and height, by the rules' way to resize. `letterbox` has borders."""
    fit = find_fit(rules, image.size, (width, height))
    scaled = _resize(image, (fit.width, fit.height))
    if rules.resize == "stretch":
        return scaled
    if rules.resize == "crop":
        return scaled.crop((-fit.left, -fit.top, width - fit.left, height - fit.top))
    fill = rules.fill if image.mode == "L" else (rules.fill,) * 3
    background: Image.Image = _import_pillow().new(image.mode, (width, height), fill)
    background.paste(scaled, (fit.left, fit.top))
    return background


def _resize(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Resize along the rows, then along the columns, in two calls: Pillow 13 may choose another order in one call."""
    bilinear = _import_pillow().Resampling.BILINEAR
    return image.resize((size[0], image.height), bilinear).resize(size, bilinear)


def make_table(rules: Preprocess, channel: int) -> np.ndarray:
    """Return the table byte → value in the tensor, for a channel.

    It is rounded to float32 after each operation, as in training frameworks.
    """
    values = (np.arange(256) * rules.scale).astype(np.float32)
    if rules.mean:
        values = values - np.float32(rules.mean[channel])
    if rules.std:
        values = values / np.float32(rules.std[channel])
    return values
