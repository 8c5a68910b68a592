from __future__ import annotations

import pytest

from tvmbuild.base.did_you_mean import find_nearest, find_nearest_pattern

IDS = [
    f"{stage}:{model}@{target}"
    for stage in ("tune", "compile", "benchmark")
    for model in ("mobilenet_v2", "silero_vad")
    for target in ("pi4", "x86-64-v3")
]


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("compile:*@p4", "compile:*@pi4"),
        ("compil:*@pi4", "compile:*@pi4"),
        ("compil:*@p4", "compile:*@pi4"),
        ("compile:silero-vad@*", "compile:silero_vad@*"),
        ("compile:silero*@x86-64_v3", "compile:silero*@x86-64-v3"),
        ("simplfy:mobile*", "simplify:mobile*"),
        ("compile:*@h200", None),
        ("compile:resnet*@pi4", None),
        ("run*", None),
    ],
)
def test_a_pattern_is_corrected_part_by_part(pattern: str, nearest: str | None) -> None:
    ids = ["simplify:mobilenet_v2", "simplify:silero_vad", *IDS]
    assert find_nearest_pattern(pattern, ids) == nearest


def test_parts_that_match_each_but_no_step_together_are_no_suggestion() -> None:
    assert find_nearest_pattern("compile:b@p4*", ["compile:a@pi4", "compile:b@h200"]) is None


@pytest.mark.parametrize(
    ("word", "nearest"), [("silero-vad", "silero_vad"), ("SILERO_VDA", "silero_vad"), ("resnet", None), ("", None)]
)
def test_words(word: str, nearest: str | None) -> None:
    assert find_nearest(word, ["silero_vad", "mobilenet_v2"]) == nearest
