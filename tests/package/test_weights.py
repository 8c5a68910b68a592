"""The layout of mod.params: TVM's own format, with weights at multiples of 64 bytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import tvm

from tvmbuild.package.weights import ALIGNMENT, FILLER, Weight, align_weights, read_weights

ARRAYS = {
    "p00000": np.arange(12, dtype="float32").reshape(3, 4),
    "p00001": np.arange(7, dtype="int8"),
    "p00002": np.array(3.5, "float64"),
    "p00003": np.ones((2, 1, 3), "float16"),
    "p00004": np.array([True, False, True]),
    "p00005": np.arange(5, dtype="uint16").reshape(1, 5, 1),
}


def save(arrays: dict[str, np.ndarray]) -> bytes:
    return bytes(tvm.runtime.save_param_dict({name: tvm.runtime.tensor(value) for name, value in arrays.items()}))


def view(data: bytes, weight: Weight) -> np.ndarray:
    return np.frombuffer(data, weight.dtype, int(np.prod(weight.shape)), weight.start).reshape(weight.shape)


def test_aligned_weights_are_the_same_for_us_and_for_tvm() -> None:
    data = align_weights(save(ARRAYS))
    weights = {each.name: each for each in read_weights(data) if not each.name.startswith(FILLER)}
    assert list(weights) == list(ARRAYS)
    assert {each.start % ALIGNMENT for each in weights.values()} == {0}
    loaded = tvm.runtime.load_param_dict(data)
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(view(data, weights[name]), value)
        np.testing.assert_array_equal(loaded[name].numpy(), value)
        assert weights[name].dtype == str(value.dtype)


def test_every_gap_is_one_that_tvm_reads() -> None:
    arrays = {f"p{size:05d}": np.full(size, size, "uint8") for size in range(1, 2 * ALIGNMENT)}
    data = align_weights(save(arrays))
    loaded = tvm.runtime.load_param_dict(data)
    for name, value in arrays.items():
        np.testing.assert_array_equal(loaded[name].numpy(), value)
    assert {each.start % ALIGNMENT for each in read_weights(data) if not each.name.startswith(FILLER)} == {0}


def test_a_file_of_an_older_tvmbuild_is_read_too() -> None:
    data = save(ARRAYS)
    for weight in read_weights(data):
        np.testing.assert_array_equal(view(data, weight), ARRAYS[weight.name])


def test_a_type_that_only_tvm_knows_has_no_name() -> None:
    data = bytes(tvm.runtime.save_param_dict({"p": tvm.runtime.empty((4,), "float8_e4m3fn")}))
    assert [each.dtype for each in read_weights(data)] == [None]


def test_no_weights_are_a_file_too() -> None:
    assert read_weights(align_weights(save({}))) == []


@pytest.mark.parametrize("length", [0, 10, 24, 40, 90, 200, 400])
def test_a_file_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=r"cut short|lists do not agree|damaged|size"):
        read_weights(save(ARRAYS)[:length])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("count", 2**63),
        ("length of the first name", 2**62),
        ("first extent", 2**62),
        ("first extent", -1),
        ("number of axes", 2**31 - 1),
        ("number of axes", -1),
        ("magic", 0),
    ],
)
def test_a_hostile_file_is_refused(place: str, value: int) -> None:
    data = bytearray(save(ARRAYS))
    first = read_weights(bytes(data))[0]
    at, form = {
        "magic": (0, "<Q"),
        "count": (16, "<Q"),
        "length of the first name": (24, "<Q"),
        "number of axes": (first.header + 24, "<i"),
        "first extent": (first.header + 32, "<q"),
    }[place]
    struct.pack_into(form, data, at, value)
    with pytest.raises(ValueError, match=r"cut short|not a file of weights|does not fit|damaged|do not agree"):
        read_weights(bytes(data))
