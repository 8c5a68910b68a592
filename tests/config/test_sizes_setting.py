"""The keys `sizes` and `pad` of a model, and the letters in its shapes."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Project

Load = Callable[..., Project]
LoadMistakes = Callable[..., list[str]]
NET = "models:\n  net:\n    source: {path: models/net.onnx}\n"
IDS = "    inputs: {ids: {shape: [1, T]}, mask: {shape: [1, T]}}\n"


def test_a_letter_has_the_values_of_sizes(load: Load) -> None:
    (model,) = load(models=NET + IDS + "    sizes: {T: [64, 16]}\n    pad: {mask: 0}\n").models
    assert model.sizes is not None
    assert [each.name for each in model.sizes.choices] == ["T16", "T64"]
    assert [each.name for each in model.sizes.others] == ["T16"]
    assert dict(model.sizes.inputs) == {"ids": (1, "T"), "mask": (1, "T")}
    assert model.sizes.pad == FrozenMap({"mask": 0.0})
    assert [each.shape for each in model.inputs] == [(1, 64), (1, 64)]


def test_pairs_are_listed_together(load: Load) -> None:
    text = "    inputs: {image: {shape: [1, 3, H, W]}}\n    sizes:\n      H,W: [[480, 640], [320, 320]]\n"
    (model,) = load(models=NET + text).models
    assert model.sizes is not None
    assert [dict(each.values) for each in model.sizes.choices] == [{"H": 320, "W": 320}, {"H": 480, "W": 640}]


def test_letters_that_are_listed_apart_are_combined(load: Load) -> None:
    text = "    inputs: {ids: {shape: [B, T]}}\n    sizes: {B: [1, 8], T: [16, 32]}\n"
    (model,) = load(models=NET + text).models
    assert model.sizes is not None
    assert [each.name for each in model.sizes.choices] == ["B1-T16", "B1-T32", "B8-T16", "B8-T32"]


@pytest.mark.parametrize(
    ("written", "built", "trials"),
    [
        ("1..256", [1, 4, 16, 64], [2, 65]),
        ("1..6", [1, 4, 6], [2]),
        ("100..300", [100], [101]),
        ("{range: 1..256, build: [32, 1]}", [1, 32], [2, 33]),
    ],
)
def test_a_range_has_a_few_sizes_and_trials(load: Load, written: str, built: list[int], trials: list[int]) -> None:
    (model,) = load(models=NET + f"    inputs: {{x: {{shape: [B, 8]}}}}\n    sizes: {{B: {written}}}\n").models
    assert model.sizes is not None
    assert [each.values["B"] for each in model.sizes.choices] == built
    assert [each.values["B"] for each in model.sizes.trials] == trials


@pytest.mark.parametrize(
    ("sizes", "mistake"),
    [
        ("{T: 8..8}", "sizes.T: 8..8 has less than two values; expected a range such as 1..256"),
        ("{T: 1...8}", 'sizes.T: "1...8" is not valid; expected a list of numbers, or a range such as 1..256'),
        ("{T: {range: 1..8, build: [9, 1]}}", "sizes.T.build[0]: 9 is not in the range; expected a value from 1 to 8"),
        ("{T: {range: 1..8, build: [2]}}", "sizes.T.build: 1 is missing; expected 1, too"),
    ],
)
def test_a_range_that_cannot_be_is_told(load_mistakes: LoadMistakes, sizes: str, mistake: str) -> None:
    (told,) = load_mistakes(models=NET + IDS + f"    sizes: {sizes}\n")
    assert mistake in told


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            IDS,
            "models.yaml:4:31: models.net.inputs.ids.shape[1]: T has no sizes; expected a number, or `sizes: {T: [16, 64]}` beside `inputs`",
        ),
        (
            IDS + "    sizes: {TT: [16]}\n",
            'models.yaml:4:31: models.net.inputs.ids.shape[1]: T has no sizes; expected a number, or `sizes: {T: [16, 64]}` beside `inputs`; did you mean "TT"?',
        ),
        (
            "    inputs: {ids: {shape: [1, 16]}}\n    sizes: {T: [16]}\n",
            "models.yaml:5:13: models.net.sizes.T: no input has T in its shape; expected a letter in a `shape:` of `inputs`, for example `shape: [1, T]`",
        ),
        (
            IDS + "    sizes: {T: [16, 16]}\n",
            "models.yaml:5:16: models.net.sizes.T: a size is listed twice; expected each size once",
        ),
        (
            IDS + '    sizes: {T: [16], "B,T": [[1, 2]]}\n',
            "models.yaml:5:22: models.net.sizes.B,T: T has sizes twice; expected each letter once",
        ),
        (
            IDS + "    sizes: {T: [[16, 32]]}\n",
            "models.yaml:5:17: models.net.sizes.T[0]: does not fit T; expected a number",
        ),
        (
            '    inputs: {ids: {shape: [B, T]}}\n    sizes: {"B,T": [16]}\n',
            "models.yaml:5:21: models.net.sizes.B,T[0]: does not fit B,T; expected [B, T], 2 numbers",
        ),
        (
            IDS + "    sizes: {T: [0]}\n",
            "models.yaml:5:17: models.net.sizes.T[0]: 0 is too small; expected at least 1",
        ),
        (
            "    inputs: {ids: {shape: [1, 2T]}}\n    sizes: {T: [16]}\n",
            'models.yaml:4:31: models.net.inputs.ids.shape[1]: "2T" is not valid; expected a number, or a letter such as T, B or H',
        ),
        (
            IDS + "    sizes: {T: [16]}\n    pad: {maks: 0}\n",
            'models.yaml:6:11: models.net.pad.maks: maks has one shape; expected an input with a letter in its shape: ids, mask; did you mean "mask"?',
        ),
        (
            IDS + "    sizes: {T: [16]}\n    pad: {mask: 9007199254740993}\n",
            "models.yaml:6:17: models.net.pad.mask: 9007199254740993 would be rounded to 9007199254740992; expected a smaller number",
        ),
        (
            "    pad: {mask: 0}\n",
            "models.yaml:4:5: models.net.pad: nothing is padded without `sizes`; expected `sizes` too",
        ),
        (
            "    inputs: {ids: {shape: [1, T], value: 0}}\n    sizes: {T: [16]}\n",
            "models.yaml:4:35: models.net.inputs.ids.value: an input of varying shape has a value; expected no `value`",
        ),
        (
            f"    inputs: {{ids: {{shape: [B, T]}}}}\n    sizes: {{B: {list(range(1, 10))}, T: {list(range(1, 10))}}}\n",
            'models.yaml:5:5: models.net.sizes: 81 sizes: letters that are listed apart are combined in every way; expected at most 64, for example pairs, "H,W": [[320, 320]]',
        ),
        (
            "    inputs: {x: {shape: [A, B, C, D, E]}}\n    sizes: {A: [1], B: [1], C: [1], D: [1], E: [1]}\n",
            "models.yaml:5:5: models.net.sizes: 5 letters; expected at most 4",
        ),
    ],
)
def test_mistakes(load_mistakes: LoadMistakes, text: str, mistake: str) -> None:
    assert mistake in load_mistakes(models=NET + text)
