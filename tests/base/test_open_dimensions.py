"""Open dimensions: the batch is recognised and gets its size, and all others are asked for at once."""

from __future__ import annotations

import argparse
import shlex

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tvmbuild.base.open_dimensions import Dim, ask_for, list_open, settle
from tvmbuild.base.specs import InputSpec
from tvmbuild.cli.check import add_arguments

Shape = tuple[Dim, ...]


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "?",
        "-1",
        "None",
        "N",
        "n",
        "b",
        "B",
        "bs",
        "batch",
        "Batch",
        "batch_size",
        "batchsize",
        "unk__314",
        "input_batch",
        "batch_dim",
        "decoder.batch",
        "batch size",
    ],
)
def test_a_batch_is_known_by_its_name_beside_other_open_dimensions(name: str | None) -> None:
    settled = settle({"x": (name, "height", "width", 3)}, ())
    assert settled.shapes["x"] == (1, "height", "width", 3)
    assert settled.describe("net") == "batch taken as 1: net.x"


@pytest.mark.parametrize("name", ["s0", "dynamic_axes_1", "rois", "M", "Transposex_dim_0"])
def test_the_only_open_dimension_is_a_batch_where_it_is_the_first(name: str) -> None:
    assert settle({"x": (name, 3, 4)}, ()).shapes["x"] == (1, 3, 4)
    assert settle({"x": (name,)}, ()).shapes["x"] == (1,)
    assert settle({"x": (name, "other")}, ()).shapes["x"] == (name, "other")
    assert settle({"x": (3, name)}, ()).shapes["x"] == (3, name)


@pytest.mark.parametrize(
    ("dims", "batches", "stand_in"),
    [
        (("Dim.0", 3, "Dim.1", "Dim.2"), 1, (1, 3, 224, 224)),
        (("Dim.0", "Dim.1", "Dim.2", 4), 1, (1, 224, 224, 4)),
        (("N", "C", "H", "W"), 1, (1, 3, 224, 224)),
        (("num_frames", 3, "h", "w"), 0, (128, 3, 224, 224)),
        (("a", 16, "b", 16), 0, (1, 16, 224, 16)),
    ],
)
def test_the_first_dimension_of_pictures_is_the_batch(dims: Shape, batches: int, stand_in: tuple[int, ...]) -> None:
    settled = settle({"x": dims}, ())
    assert len(settled.batches) == batches
    assert ask_for(settled.shapes, "net").stand_ins["x"] == stand_in


@pytest.mark.parametrize("name", ["sequence", "seq_len", "length", "num_samples", "time", "frames", "past_tokens"])
def test_what_one_of_makes_no_sense_is_none(name: str) -> None:
    assert settle({"x": (name, 80)}, ()).batches == ()


@pytest.mark.parametrize(
    ("shapes", "asked", "settled", "said"),
    [
        # a name has one size in all inputs, wherever it stands
        ({"x": ("N", 3), "h": (2, "N", 8)}, {}, {"x": (1, 3), "h": (2, 1, 8)}, "1: net.x"),
        ({"x": ("N", 3), "m": ("N",)}, {"x": (4, 3)}, {"x": (4, 3), "m": (4,)}, None),
        ({"x": ("N", 3), "m": ("N",)}, {}, {"x": (1, 3), "m": (1,)}, "1: net.x, net.m"),
        # placeholders are not names
        ({"x": ("?", 3), "m": ("?", "?")}, {}, {"x": (1, 3), "m": (1, "?")}, "1: net.x, net.m"),
        # the batch that models.yaml gives one input holds for the others
        ({"x": (None, 3), "m": (None, 5)}, {"x": (4, 3)}, {"x": (4, 3), "m": (4, 5)}, "4: net.m"),
        ({"x": (None, 3), "m": (None, 5)}, {"x": (1, 3)}, {"x": (1, 3), "m": (1, 5)}, "1: net.m"),
        # a name that stands elsewhere too means something else
        ({"ids": ("batch", "s"), "at": ("s",)}, {}, {"ids": (1, "s"), "at": ("s",)}, "1: net.ids"),
        # a list of values has its own shape; a shape of another rank is refused elsewhere
        ({"x": (2,), "pads": ("N",)}, {}, {"x": (2,), "pads": ("N",)}, None),
        ({"x": ("N", 3)}, {"x": (1, 2, 3)}, {"x": (1, 3)}, "1: net.x"),
        ({"x": (), "y": (3,)}, {}, {"x": (), "y": (3,)}, None),
    ],
)
def test_shapes(
    shapes: dict[str, Shape], asked: dict[str, tuple[int, ...]], settled: dict[str, Shape], said: str | None
) -> None:
    specs = [InputSpec(name, shape) for name, shape in asked.items()] + [InputSpec("pads", value="[1, 2]")]
    found = settle(shapes, specs)
    assert found.shapes == settled
    assert found.describe("net") == (said and f"batch taken as {said}")


def test_all_inputs_are_asked_for_at_once() -> None:
    question = ask_for({"ids": (1, "sequence"), "mask": (1, "sequence"), "k": (8,), "s": ()}, "net")
    assert question.message == "net: inputs have dynamic dimensions: ids 1 (sequence); mask 1 (sequence)"
    assert question.hint == (
        "fix them in models.yaml, under net: "
        "`inputs: {ids: {shape: [1, 128]}, mask: {shape: [1, 128]}, k: {shape: [8]}}` "
        "(for `tvmbuild check`: `--shape ids=1,128 --shape mask=1,128 --shape k=8`); 128 stands for sequence"
    )
    one = ask_for({"x": (1, 3, None, None)}, "net")
    assert one.message == "net: the input x has dynamic dimensions: 2, 3"
    assert one.stands == ("224 stands for dimension 2 of x, dimension 3 of x",)


def test_sums_of_names_stand_for_sums() -> None:
    shapes: dict[str, Shape] = {
        "a": (1, "past_length + sequence_length"),
        "p": (1, 8, "past_length", 64),
        "i": (1, "sequence_length"),
    }
    asked = ask_for(shapes, "net").stand_ins
    assert asked["a"][1] == asked["p"][2] + asked["i"][1]


_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="=`"), min_size=1)
_DIMS = st.one_of(st.integers(1, 9), st.none(), st.sampled_from(["N", "seq", "h", "w", "a + 1", "?"]))


@given(st.dictionaries(_NAMES, st.lists(_DIMS, max_size=5).map(tuple), min_size=1))
def test_both_lines_can_be_pasted(shapes: dict[str, Shape]) -> None:
    settled = settle(shapes, ()).shapes
    if not list_open(settled):
        return
    question = ask_for(settled, "net")
    _, line, _, _, _, words, _ = question.hint.split("`")
    wanted = {name: list(shape) for name, shape in question.stand_ins.items() if shape}
    read = yaml.safe_load(line)["inputs"]
    assert {name: value["shape"] for name, value in read.items()} == wanted
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert dict(parser.parse_args(["net.onnx", *shlex.split(words)]).shapes) == wanted
    for name, shape in question.stand_ins.items():
        assert all(size == dim for size, dim in zip(shape, settled[name], strict=True) if isinstance(dim, int))
