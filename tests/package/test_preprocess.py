"""Pictures become tensors: compared with values computed here by hand, without the code under test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget, TensorInfo
from tvmbuild.package.preprocess import open_picture, preprocess_picture

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IMAGENET = Preprocess(mean=MEAN, std=STD)


def make_info(shape: tuple[int, ...], rules: Preprocess | None, dtype: str = "float32") -> PackageInfo:
    target, coverage = PackageTarget("v3", "llvm"), PackageCoverage(0, 0)
    tensors = (TensorInfo("image", shape, dtype),)
    return PackageInfo("net", target, tensors, (), "lifted", coverage, "NHWC", preprocess=rules)


def make_picture(width: int, height: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)


def resize_by_hand(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Weigh pixels by a triangle that is as wide as the reduction, as torchvision's Resize does with pictures."""

    def weights(size: int, new: int) -> np.ndarray:
        scale = size / new
        reach = max(scale, 1.0)
        centers = (np.arange(new)[:, None] + 0.5) * scale
        falling = np.clip(1 - np.abs(np.arange(size)[None] + 0.5 - centers) / reach, 0, None)
        return np.asarray(falling / falling.sum(1, keepdims=True))

    rows, columns = weights(pixels.shape[0], height), weights(pixels.shape[1], width)
    return np.asarray(np.einsum("yh,xw,hwc->yxc", rows, columns, pixels.astype(np.float64), optimize=True))


def test_each_number_is_what_imagenet_training_makes_of_its_byte() -> None:
    pixels = make_picture(4, 2)
    got = preprocess_picture(make_info((1, 3, 2, 4), IMAGENET), pixels)
    assert (got.dtype, got.shape, got.flags["C_CONTIGUOUS"]) == (np.dtype("float32"), (1, 3, 2, 4), True)
    for channel, (mean, std) in enumerate(zip(MEAN, STD, strict=True)):
        for y in range(2):
            for x in range(4):
                # torchvision: ToTensor divides by 255, Normalize subtracts and divides, all in float32
                unit = np.float32(np.float32(pixels[y, x, channel]) / np.float32(255))
                want = np.float32(np.float32(unit - np.float32(mean)) / np.float32(std))
                assert got[0, channel, y, x] == want


def test_every_byte_over_255_is_the_float_that_torch_has() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    got = preprocess_picture(make_info((1, 1, 16, 16), Preprocess(color="gray")), pixels)
    assert np.array_equal(got.reshape(-1), np.arange(256, dtype=np.float32) / np.float32(255))


def test_blue_first_and_channels_last() -> None:
    pixels = make_picture(5, 3)
    rules = Preprocess(color="bgr", scale=1.0, layout="NHWC", mean=(1.0, 2.0, 3.0))
    got = preprocess_picture(make_info((3, 5, 3), rules), pixels)
    assert np.array_equal(got, pixels[:, :, ::-1].astype(np.float32) - np.array([1, 2, 3], np.float32))


def test_grey_is_the_eyes_brightness() -> None:
    pixels = make_picture(6, 6)
    got = preprocess_picture(make_info((1, 1, 6, 6), Preprocess(color="gray", scale=1.0)), pixels)
    want = pixels @ np.array([0.299, 0.587, 0.114])  # ITU-R 601
    assert np.abs(got[0, 0] - want).max() <= 0.51


@pytest.mark.parametrize(("width", "height"), [(451, 300), (40, 90), (100, 100)])
def test_a_picture_is_stretched_by_averaging(width: int, height: int) -> None:
    pixels = make_picture(width, height)
    got = preprocess_picture(make_info((1, 3, 64, 48), Preprocess(scale=1.0)), pixels)
    want = resize_by_hand(pixels, 48, 64).transpose(2, 0, 1)[None]
    assert np.abs(got - want).max() <= 1.01  # bytes are rounded once along each side


@pytest.mark.parametrize(
    ("width", "height", "scaled"), [(451, 300, (96, 64)), (300, 451, (64, 96)), (70, 64, (70, 64))]
)
def test_a_crop_is_the_middle_of_the_picture_that_covers_the_tensor(
    width: int, height: int, scaled: tuple[int, int]
) -> None:
    pixels = make_picture(width, height)
    got = preprocess_picture(make_info((1, 3, 64, 64), Preprocess(scale=1.0, resize="crop")), pixels)
    whole = resize_by_hand(pixels, *scaled)
    left, top = (scaled[0] - 64) // 2, (scaled[1] - 64) // 2
    want = whole[top : top + 64, left : left + 64].transpose(2, 0, 1)[None]
    assert np.abs(got - want).max() <= 1.01


@pytest.mark.parametrize(
    ("width", "height", "scaled"), [(200, 100, (64, 32)), (100, 200, (32, 64)), (64, 64, (64, 64))]
)
def test_a_letterbox_shows_all_of_the_picture_between_grey(width: int, height: int, scaled: tuple[int, int]) -> None:
    pixels = make_picture(width, height)
    got = preprocess_picture(make_info((1, 3, 64, 64), Preprocess(scale=1.0, resize="letterbox")), pixels)[0]
    left, top = (64 - scaled[0]) // 2, (64 - scaled[1]) // 2
    inside = np.zeros((64, 64), bool)
    inside[top : top + scaled[1], left : left + scaled[0]] = True
    assert np.all(got[:, ~inside] == 114)
    want = resize_by_hand(pixels, *scaled).transpose(2, 0, 1)
    assert np.abs(got[:, top : top + scaled[1], left : left + scaled[0]] - want).max() <= 1.01


@pytest.mark.parametrize(("width", "height"), [(30, 40), (7, 24), (50, 37), (3, 400)])
def test_rows_are_resized_before_columns_whatever_the_sides(width: int, height: int) -> None:
    pixels = make_picture(width, height)
    got = preprocess_picture(make_info((1, 3, 16, 14), Preprocess(scale=1.0)), pixels)
    rows = np.asarray(Image.fromarray(pixels).resize((14, height), Image.Resampling.BILINEAR))
    want = np.asarray(Image.fromarray(rows).resize((14, 16), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(got[0], want)


def test_a_half_precision_and_an_integer_input() -> None:
    pixels = make_picture(2, 2)
    half = preprocess_picture(make_info((1, 3, 2, 2), Preprocess(), "float16"), pixels)
    assert half.dtype == np.float16
    whole = preprocess_picture(make_info((1, 3, 2, 2), Preprocess(scale=1.0), "uint8"), pixels)
    assert np.array_equal(whole[0], pixels.transpose(2, 0, 1))


def test_files_pictures_and_arrays_are_the_same(tmp_path: Path) -> None:
    pixels = make_picture(30, 20)
    image = Image.fromarray(pixels)
    image.save(tmp_path / "p.png")
    transparent = image.copy()
    transparent.putalpha(77)
    info = make_info((1, 3, 8, 8), IMAGENET)
    want = preprocess_picture(info, pixels)
    for picture in (image, transparent, tmp_path / "p.png", str(tmp_path / "p.png")):
        assert np.array_equal(preprocess_picture(info, picture), want)


def test_sixteen_bits_of_grey_keep_the_upper_eight(tmp_path: Path) -> None:
    pixels = (np.arange(64, dtype=np.uint16) * 1000).reshape(8, 8)
    Image.fromarray(pixels).save(tmp_path / "deep.png")
    info = make_info((1, 1, 8, 8), Preprocess(color="gray", scale=1.0))
    got = preprocess_picture(info, tmp_path / "deep.png")
    assert np.array_equal(got[0, 0], (pixels >> 8).astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "rules", "name", "message"),
    [
        ((1, 3, 8, 8), None, None, "net does not say how a picture becomes its input"),
        ((1, 3, 8, 8), Preprocess(), "other", "the input of net that a picture becomes is image, not other"),
        ((1, 3, 8, 8), Preprocess(input="x"), None, "net has the inputs image and does not say which"),
        ((1, 8, 8, 3), Preprocess(), None, r"the input image of net is \[1, 8, 8, 3\]: no rgb picture in NCHW"),
        ((1, 3, 8, 8), Preprocess(color="gray"), None, r"is \[1, 3, 8, 8\]: no gray picture in NCHW"),
        ((2, 3, 8, 8), Preprocess(), None, "no rgb picture in NCHW"),
    ],
)
def test_packages_that_take_no_picture(
    shape: tuple[int, ...], rules: Preprocess | None, name: str | None, message: str
) -> None:
    with pytest.raises(TvmbuildError, match=message):
        preprocess_picture(make_info(shape, rules), make_picture(8, 8), name)


@pytest.mark.parametrize("value", [np.zeros((8, 8, 3)), np.zeros((8, 8, 4), np.uint8), np.zeros(8, np.uint8)])
def test_arrays_that_are_no_picture(value: Any) -> None:
    with pytest.raises(TvmbuildError, match=r"a picture is uint8 \[height, width, 3\]"):
        preprocess_picture(make_info((1, 3, 8, 8), Preprocess()), value)


@pytest.mark.parametrize("value", [np.zeros((0, 5, 3), np.uint8), np.zeros((5, 0), np.uint8), Image.new("RGB", (0, 5))])
def test_pictures_without_pixels(value: Any) -> None:
    with pytest.raises(TvmbuildError, match="the picture is empty"):
        open_picture(value)


def test_files_that_are_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info, path = make_info((1, 3, 8, 8), Preprocess()), tmp_path / "p.png"
    with pytest.raises(TvmbuildError, match=r"p\.png cannot be read as a picture: No such file"):
        preprocess_picture(info, path)
    path.write_text("text")
    with pytest.raises(TvmbuildError, match=r"p\.png cannot be read as a picture: cannot identify"):
        preprocess_picture(info, path)
    Image.fromarray(make_picture(50, 50)).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(TvmbuildError, match=r"p\.png cannot be read as a picture: \S"):
        preprocess_picture(info, path)
    Image.fromarray(make_picture(50, 50)).save(path)
    for limit in (2000, 1000):  # Pillow warns over the first and refuses over twice that
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(TvmbuildError, match=r"p\.png is too large: "):
            preprocess_picture(info, path)
