from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import make_inputs, read_inputs, write_arrays
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget, TensorInfo

TENSORS = (
    TensorInfo("x", (2, 3), "float32"),
    TensorInfo("index", (4,), "int64"),
    TensorInfo("flag", (), "bool"),
    TensorInfo("y", (2, 3), "float16"),
)
INFO = PackageInfo("net", PackageTarget("v3", "llvm"), TENSORS[:2], (), "lifted", PackageCoverage(1, 1), "NHWC")
GOOD: dict[str, Any] = {"x": np.ones((2, 3), np.float32), "index": np.zeros(4, np.int64)}


def test_random_inputs_are_random_floats_and_harmless_indices() -> None:
    made = make_inputs(TENSORS, "random")
    assert [(name, value.shape, str(value.dtype)) for name, value in made.items()] == [
        (tensor.name, tensor.shape, tensor.dtype) for tensor in TENSORS
    ]
    assert len(np.unique(made["x"])) == 6
    assert np.all(np.abs(made["x"]) <= 1)
    assert not np.array_equal(made["x"], made["y"].astype(np.float32))
    assert not made["index"].any()
    assert not made["flag"]


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second, other = (make_inputs(TENSORS, "random", seed)["x"] for seed in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_ones_and_zeros_fill_every_type() -> None:
    assert all(np.all(value == 1) for value in make_inputs(TENSORS, "ones").values())
    assert not any(np.any(value) for value in make_inputs(TENSORS, "zeros").values())


def test_inputs_are_read_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **GOOD)
    got = read_inputs(tmp_path / "in.npz", INFO)
    assert {name: value.tolist() for name, value in got.items()} == {name: v.tolist() for name, v in GOOD.items()}


def test_a_reference_file_serves_as_inputs(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {f"input:{name}": value for name, value in GOOD.items()} | {"output:z": np.ones(1)}
    np.savez(tmp_path / "reference.npz", **arrays)
    assert set(read_inputs(tmp_path / "reference.npz", INFO)) == {"x", "index"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": None}, "net needs the input x: float32 [2, 3]"),
        ({"z": np.ones(1)}, "net has no input z; its inputs are x, index"),
        ({"x": np.ones((3, 2), np.float32)}, "the input x of net is float32 [2, 3], got float32 [3, 2]"),
        ({"x": np.ones((2, 3))}, "the input x of net is float32 [2, 3], got float64 [2, 3]"),
    ],
)
def test_inputs_that_do_not_fit_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    arrays = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(TvmbuildError) as caught:
        read_inputs(tmp_path / "in.npz", INFO)
    assert caught.value.message == message


def test_files_that_are_no_npz_say_so(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    with pytest.raises(TvmbuildError, match=r"in\.npz cannot be read as \.npz: No such file"):
        read_inputs(path, INFO)
    for content, reason in {b"": r"\S", b"text": "it is no file of NumPy's", b"PK\x03\x04 half": r"\S"}.items():
        path.write_bytes(content)
        with pytest.raises(TvmbuildError, match=rf"in\.npz cannot be read as \.npz: {reason}"):
            read_inputs(path, INFO)
    with path.open("wb") as stream:
        np.save(stream, GOOD["x"])
    with pytest.raises(TvmbuildError, match=r"in\.npz holds one array without a name"):
        read_inputs(path, INFO)
    np.savez(path, x=np.array([object()]))
    with pytest.raises(TvmbuildError, match=r"in\.npz cannot be read as \.npz: Object arrays"):
        read_inputs(path, INFO)
    np.savez(path, **GOOD)
    data = bytearray(path.read_bytes())
    data[data.index(np.ones(6, np.float32).tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(TvmbuildError, match=r"in\.npz cannot be read as \.npz: Bad CRC"):
        read_inputs(path, INFO)


def test_arrays_are_written_under_any_name(tmp_path: Path) -> None:
    arrays = {"file": np.arange(3), "a/b:0": np.float32(2.5) * np.ones(()), "empty": np.zeros((0, 2))}
    write_arrays(tmp_path / "new" / "out.npz", arrays)
    with np.load(tmp_path / "new" / "out.npz") as got:
        assert set(got.files) == set(arrays)
        for name, value in arrays.items():
            assert np.array_equal(got[name], value)


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TvmbuildError, match=r"out\.npz cannot be written: "):
        write_arrays(tmp_path / "file" / "out.npz", GOOD)
