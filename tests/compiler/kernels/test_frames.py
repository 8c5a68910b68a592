"""Frames become inputs: bit by bit what Pillow and OpenCV make of them, for drawn sizes, encodings and rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args, get_type_hints

import cv2
import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import draws

from tvmbuild.base.frame_specs import Crop, Encoding, Frame
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.compiler.kernels.frames.prepare import Preparation, describe_preparation, write_along, write_down
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.preprocess import find_fit, preprocess_picture

pytestmark = pytest.mark.compiler
CODES: dict[Encoding, int] = {
    "bgr8": cv2.COLOR_BGR2RGB,
    "rgba8": cv2.COLOR_RGBA2RGB,
    "bgra8": cv2.COLOR_BGRA2RGB,
    "mono8": cv2.COLOR_GRAY2RGB,
    "yuyv": cv2.COLOR_YUV2RGB_YUYV,
    "uyvy": cv2.COLOR_YUV2RGB_UYVY,
    "nv12": cv2.COLOR_YUV2RGB_NV12,
    "nv21": cv2.COLOR_YUV2RGB_NV21,
    "i420": cv2.COLOR_YUV2RGB_I420,
    "bayer_rggb8": cv2.COLOR_BayerRGGB2RGB,
    "bayer_bggr8": cv2.COLOR_BayerBGGR2RGB,
    "bayer_gbrg8": cv2.COLOR_BayerGBRG2RGB,
    "bayer_grbg8": cv2.COLOR_BayerGRBG2RGB,
}
RESIZES = get_args(get_type_hints(Preprocess)["resize"])
SIDES = st.integers(2, 24).map(lambda half: 2 * half)


def prepare(
    frame: Frame, rules: Preprocess, size: tuple[int, int], data: np.ndarray, dtype: str = "float32"
) -> np.ndarray:
    """Run both kernels on a CPU; the result is an input of that type."""
    form = replace(describe(frame, rules, size), dtype=dtype)
    functions = {"along": write_along(form, on_gpu=False), "down": write_down(form, on_gpu=False)}
    library = tvm.compile(
        tvm.ir.IRModule({name: each.with_attr("global_symbol", name) for name, each in functions.items()}),
        target=tvm.target.Target({"kind": "llvm", "num-cores": 2}),
    )
    first, second = ([tvm.runtime.tensor(each) for each in part] for part in form.list_constants())
    between = tvm.runtime.tensor(np.zeros(*form.between))
    out = tvm.runtime.tensor(np.zeros(form.shape, form.dtype))
    library["along"](tvm.runtime.tensor(data), *first, between)
    library["down"](between, *second, out)
    return np.asarray(out.numpy())


def describe(frame: Frame, rules: Preprocess, size: tuple[int, int]) -> Preparation:
    fit = find_fit(rules, (frame.used.width, frame.used.height), size[::-1])
    return describe_preparation(frame, rules, fit, size, (shape_of(rules, size), "float32"))


def shape_of(rules: Preprocess, size: tuple[int, int]) -> tuple[int, ...]:
    channels = 1 if rules.color == "gray" else 3
    return (1, channels, *size) if rules.layout == "NCHW" else (1, *size, channels)


def to_rgb(frame: Frame, data: np.ndarray) -> np.ndarray:
    """Return the pixels of the used part of a frame."""
    if frame.stride is not None:
        data = remove_gaps(frame, data)
    part = frame.used
    pixels = data if frame.encoding == "mono8" else convert(frame, data)
    return np.ascontiguousarray(pixels[part.top :][: part.height, part.left :][:, : part.width])


def remove_gaps(frame: Frame, data: np.ndarray) -> np.ndarray:
    """Return the bytes of a frame with a stride as those of one without."""
    dense = replace(frame, stride=None)
    rows = data[:, : frame.row_bytes]
    if frame.encoding == "i420":
        rows = data[: frame.height, : frame.width]
        colors = data[frame.height :].reshape(frame.height, -1)[:, : frame.width // 2]
        return np.concatenate([rows, colors.reshape(-1, frame.width)])
    return np.ascontiguousarray(rows).reshape(dense.shape)


def convert(frame: Frame, data: np.ndarray) -> np.ndarray:
    return data if frame.encoding == "rgb8" else np.asarray(cv2.cvtColor(data, CODES[frame.encoding]))


def prepare_by_pillow(
    frame: Frame, rules: Preprocess, size: tuple[int, int], data: np.ndarray, dtype: str = "float32"
) -> np.ndarray:
    picture = to_rgb(frame, data)
    info = ModelInputs("net", (TensorInfo("picture", shape_of(rules, size), dtype),), rules)
    return preprocess_picture(info, picture)


@st.composite
def draw_rules(draw: Any) -> Preprocess:
    color = draw(st.sampled_from(["rgb", "bgr", "gray"]))
    channels = 1 if color == "gray" else 3
    numbers = st.tuples(*[st.floats(0.125, 1)] * channels)
    return Preprocess(
        resize=draw(st.sampled_from(RESIZES)),
        color=color,
        mean=draw(st.one_of(st.just(()), numbers)),
        std=draw(st.one_of(st.just(()), numbers)),
        layout=draw(st.sampled_from(["NCHW", "NHWC"])),
        align=draw(st.sampled_from(["center", "top-left"])),
        fill=draw(st.integers(0, 255)),
        crop_pct=draw(st.sampled_from([1.0, 0.875, 0.5])),
    )


@st.composite
def draw_frames(draw: Any) -> Frame:
    """Return a frame, with gaps between its rows or without, and a part of it that is used."""
    frame = Frame(draw(SIDES), draw(SIDES), draw(st.sampled_from(get_args(Encoding))))
    if draw(st.booleans()):
        frame = replace(frame, stride=frame.row_bytes + 2 * draw(st.integers(0, 5)))
    if draw(st.booleans()):
        rows, columns = draw(st.integers(1, frame.height)), draw(st.integers(1, frame.width))
        top, left = draw(st.integers(0, frame.height - rows)), draw(st.integers(0, frame.width - columns))
        frame = replace(frame, crop=Crop(top, left, rows, columns))
    assert frame.find_fault() is None
    return frame


@settings(max_examples=draws(40), deadline=None)
@given(
    draw_frames(),
    draw_rules(),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.integers(0, 1 << 30),
)
def test_a_frame_becomes_what_pillow_makes_of_its_picture(
    frame: Frame, rules: Preprocess, size: tuple[int, int], seed: int
) -> None:
    data = np.random.default_rng(seed).integers(0, 256, frame.shape, np.uint8)
    np.testing.assert_array_equal(prepare(frame, rules, size, data), prepare_by_pillow(frame, rules, size, data))


@settings(max_examples=draws(25), deadline=None)
@given(SIDES, SIDES, st.tuples(st.integers(1, 60), st.integers(1, 60)), st.sampled_from(["bilinear", "nearest"]))
def test_a_frame_becomes_what_opencv_makes_of_its_picture(
    height: int, width: int, size: tuple[int, int], interpolation: Any
) -> None:
    frame = Frame(height, width, "bgr8", interpolation)
    data = np.random.default_rng(height * width).integers(0, 256, frame.shape, np.uint8)
    got = prepare(frame, Preprocess(scale=1.0, layout="NHWC"), size, data)[0]
    way = cv2.INTER_LINEAR if interpolation == "bilinear" else cv2.INTER_NEAREST
    want = cv2.resize(to_rgb(frame, data), size[::-1], interpolation=way).astype(np.float32)
    # OpenCV halves a picture by means of four pixels, whatever was asked.
    halved = interpolation == "bilinear" and (height, width) == (2 * size[0], 2 * size[1])
    assert np.abs(got - want).max() <= halved


@settings(max_examples=draws(25), deadline=None)
@given(SIDES, SIDES, st.tuples(st.integers(1, 60), st.integers(1, 60)))
def test_areas_are_those_of_opencv(height: int, width: int, size: tuple[int, int]) -> None:
    frame = Frame(height, width, "bgr8", "area")
    data = np.random.default_rng(height * width).integers(0, 256, frame.shape, np.uint8)
    got = prepare(frame, Preprocess(scale=1.0, layout="NHWC"), size, data)[0]
    want = cv2.resize(to_rgb(frame, data), size[::-1], interpolation=cv2.INTER_AREA).astype(np.float32)
    assert np.abs(got - want).max() <= 1  # OpenCV's weights are float32


@pytest.mark.parametrize("dtype", ["float16", "uint8"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_inputs_of_other_types(dtype: str, layout: Any) -> None:
    frame, rules = Frame(30, 50, "bgr8"), Preprocess(resize="letterbox", scale=0.75, layout=layout)
    data = np.random.default_rng(5).integers(0, 256, frame.shape, np.uint8)
    got = prepare(frame, rules, (40, 37), data, dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, prepare_by_pillow(frame, rules, (40, 37), data, dtype))


def test_only_rows_that_matter_are_read() -> None:
    rules = Preprocess(resize="stretch")
    third = describe(Frame(1080, 1920, "rgb8", "bilinear"), rules, (360, 640))
    assert third.rows.tolist() == list(range(1, 1080, 3))
    assert (third.along.count, third.down.count) == (1, 1)
    assert len(describe(Frame(1080, 1920, "rgb8"), rules, (360, 640)).rows) == 1080


def test_a_letterbox_is_grey_outside_of_the_frame() -> None:
    frame = Frame(10, 40, "mono8")
    data = np.zeros(frame.shape, np.uint8)
    got = prepare(frame, Preprocess(resize="letterbox", scale=1.0), (20, 20), data)[0, 0]
    assert np.unique(got[:7]).tolist() == np.unique(got[12:]).tolist() == [114.0]
    assert not got[7:12].any()
