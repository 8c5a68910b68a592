"""The lines of models.yaml that `check` offers for open dimensions: their letters, `pad`, and that they can be pasted."""

# ruff: noqa: E501 - a line stands here as its reader sees it

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tvmbuild.base.open_dimensions import Dim, quote_name
from tvmbuild.base.size_proposals import propose_sizes
from tvmbuild.config import load_project

Shapes = dict[str, tuple[Dim, ...]]
TEXT = {"input_ids": "int64", "attention_mask": "int64", "token_type_ids": "int64", "mask": "float"}
TARGETS = "targets:\n  pc: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}\n"


@pytest.mark.parametrize(
    ("shapes", "lines"),
    [
        (
            {"ids": ("batch", "sequence"), "table": (8,), "scale": ()},
            [
                "inputs: {ids: {shape: [B, T]}, table: {shape: [8]}}",
                "sizes: {B: [1, 8], T: [16, 32, 64, 128]}  # any other T is refused: no input masks padding",
            ],
        ),
        (
            {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "sequence"), "token_type_ids": ("batch", "sequence")},
            [
                "inputs: {input_ids: {shape: [B, T]}, attention_mask: {shape: [B, T]}, token_type_ids: {shape: [B, T]}}",
                "sizes: {B: [1, 8], T: [16, 32, 64, 128]}",
                "pad: {attention_mask: 0, input_ids: 0}",
            ],
        ),
        (
            {"x": (1, "sequence", 8), "mask": (1, "sequence")},  # a mask of floats may be added to the scores
            [
                "inputs: {x: {shape: [1, T, 8]}, mask: {shape: [1, T]}}",
                "sizes: {T: [16, 32, 64, 128]}  # any other T is refused: no input masks padding",
            ],
        ),
        ({"x": ("N", 3, 224, 224)}, ["inputs: {x: {shape: [B, 3, 224, 224]}}", "sizes: {B: [1, 8]}"]),
        (
            {"input_ids": (1, "sequence_length"), "past": (1, 8, "past_sequence_length", 64)},
            [
                "inputs: {input_ids: {shape: [1, T]}, past: {shape: [1, 8, P, 64]}}",
                "sizes: {P: [64, 128], T: [16, 32, 64, 128]}  # any other P or T is refused: no input masks padding",
            ],
        ),
        ({"x": ("rows", "columns")}, ["inputs: {x: {shape: [N, M]}}", "sizes: {M: [64, 128], N: [64, 128]}  # any other M or N is refused: no input masks padding"]),
        ({"x": (1, 3)}, []),
        ({"x": (1, "past + sequence"), "y": (1, "past")}, []),
        ({"x": ("a", "b", "c", "d", "e")}, []),
        ({"x": ("batch", 0, 4)}, []),
    ],
)  # fmt: skip
def test_open_dimensions_are_offered_as_sizes(shapes: Shapes, lines: list[str]) -> None:
    assert list(propose_sizes(shapes, TEXT)) == lines


@pytest.mark.parametrize(
    "dims",
    [
        ("p2o.DynamicDimension.0", 3, "p2o.DynamicDimension.1", "p2o.DynamicDimension.2"),
        ("N", "C", "H", "W"),
        ("batch", 3, "h", "w"),
        ("?", 3, "?", "?"),
        (None, 3, None, None),
        ("s0", 3, "s1", "s2"),
        ("batch_size", 3, "image_height", "image_width"),
    ],
)
def test_pictures_have_a_batch_and_pairs(dims: tuple[Dim, ...]) -> None:
    shown, sizes = propose_sizes({"x": dims}, {"x": "float"})
    assert shown == "inputs: {x: {shape: [B, 3, H, W]}}"
    assert sizes.startswith('sizes: {B: [1, 8], "H,W": [[320, 320], [480, 640]]}  # any other H or W is refused')


def test_pictures_with_the_channels_last_and_of_one_size() -> None:
    shown, sizes = propose_sizes({"x": ("a", "b", "c", 1), "z": (1, 3, "side", "side")}, {})
    assert shown == "inputs: {x: {shape: [B, H, W, 1]}, z: {shape: [1, 3, N, N]}}"
    assert sizes.startswith('sizes: {B: [1, 8], N: [64, 128], "H,W": ')


def test_a_cache_of_attention_is_no_picture() -> None:
    shown, sizes, *_ = propose_sizes({"past_key": ("batch", 4, "past_sequence_length", 64)}, {"past_key": "float"})
    assert shown == "inputs: {past_key: {shape: [B, 4, P, 64]}}"
    assert sizes.startswith("sizes: {B: [1, 8], P: [64, 128]}")


@pytest.mark.parametrize("names", [("s0", "s1"), ("?", "?"), (None, None), ("unk__1", "unk__2"), ("batch", "s61")])
def test_numbered_names_mean_a_batch_and_a_sequence(names: tuple[str | None, str | None]) -> None:
    shapes: Shapes = {"input_ids": names, "attention_mask": names}
    shown, sizes, pad = propose_sizes(shapes, TEXT)
    assert shown == "inputs: {input_ids: {shape: [B, T]}, attention_mask: {shape: [B, T]}}"
    assert sizes == "sizes: {B: [1, 8], T: [16, 32, 64, 128]}"
    assert pad == "pad: {attention_mask: 0, input_ids: 0}"


_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
_SAID = st.sampled_from(["N", "seq", "h", "w", "past_len", "?", "s0", "C", "batch"])
_DIMS = st.one_of(st.integers(1, 9), st.none(), _SAID)
_INPUTS = st.tuples(st.lists(_DIMS, max_size=5).map(tuple), st.sampled_from(["float", "int64", "bool"]))


@given(st.dictionaries(st.one_of(_NAMES, _NAMES.map(lambda name: f"{name}_mask")), _INPUTS, min_size=1, max_size=4))
@example({"yes": (("batch", "seq"), "int64"), "a: b": ((1, "seq"), "int64"), "mask #1": (("batch", "seq"), "bool")})
@example({"1": (("batch",), "float"), "1e3": (("batch", "seq"), "float"), "~": (("seq",), "float")})
def test_the_lines_can_be_pasted(inputs: dict[str, tuple[tuple[Dim, ...], str]]) -> None:
    shapes, dtypes = (
        {name: dims for name, (dims, _) in inputs.items()},
        {name: kind for name, (_, kind) in inputs.items()},
    )
    lines = propose_sizes(shapes, dtypes)
    if not lines:
        return
    text = "models:\n  net:\n    source: {path: net.onnx}\n" + "".join(f"    {line}\n" for line in lines)
    own = yaml.safe_load(text)["models"]["net"]
    assert set(own["inputs"]) == {name for name, dims in shapes.items() if dims}
    with TemporaryDirectory() as folder:
        Path(folder, "net.onnx").touch()
        Path(folder, "models.yaml").write_text(text, encoding="utf-8")
        Path(folder, "targets.yaml").write_text(TARGETS)
        (model,) = load_project(Path(folder)).models
    assert model.sizes is not None
    assert {name: list(dims) for name, dims in model.sizes.inputs.items()} == {
        name: each["shape"]
        for name, each in own["inputs"].items()
        if any(isinstance(axis, str) for axis in each["shape"])
    }
    assert set(model.sizes.pad) == set(own.get("pad", ()))


def test_a_name_is_quoted_if_it_must_be() -> None:
    assert [quote_name(name) for name in ("x", "a/b.c", "yes", "1", "a b")] == ["x", "a/b.c", '"yes"', '"1"', '"a b"']
