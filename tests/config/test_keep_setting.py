"""The key `keep` of a model."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable

import pytest

from tvmbuild.base.specs import Keep, Project

Load = Callable[..., Project]
TARGETS = (
    "targets:\n  spr: {kind: llvm, mcpu: sapphirerapids, mtriple: x86_64-linux-gnu, num-cores: 2, precision: fp16}\n"
)
NET = "models:\n  net: {source: {path: models/net.onnx}, "
JUDGED = ", accuracy: {inputs: models/net.onnx, rms: 0.1}"


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("auto" + JUDGED, Keep(search=True)),
        ("[Softmax, 'head/*']", Keep(("Softmax", "head/*"))),
        ("[Softmax, auto]" + JUDGED, Keep(("Softmax",), search=True)),
    ],
)
def test_what_stays_in_float32(load: Load, text: str, keep: Keep) -> None:
    assert load(models=f"{NET}keep: {text}}}\n", targets=TARGETS).models[0].keep == keep


MISTAKES = {
    "a word": (
        "keep: Softmax",
        'models.yaml:2:48: models.net.keep: "Softmax" is not valid; expected auto, or a list of them',
    ),
    "a search without a threshold": (
        "keep: [Softmax, auto]",
        "models.yaml:2:42: models.net.keep: the model's `accuracy:` has no threshold that the search could keep; expected top1, rms, of_largest, drop or at_least in `accuracy`",
    ),
    "no target of shorter floats": (
        "keep: [Softmax], targets: {exclude: [spr]}",
        "models.yaml:2:42: models.net.keep: no target of the model has `precision: fp16`, `bf16` or `tf32`, so that all of it has float32; expected such a target in targets.yaml; for int8 there is `quantize: {keep: auto}`",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_meant(load_mistakes: Callable[..., list[str]], name: str) -> None:
    text, message = MISTAKES[name]
    assert load_mistakes(models=f"{NET}{text}}}\n", targets=TARGETS) == [message]
