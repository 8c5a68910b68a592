"""The key `quantize` of a model, and `precision: int8` of a target."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.specs import Project, Tolerance

Load = Callable[..., Project]
CPU = "kind: llvm, mcpu: x86-64-v4, mtriple: x86_64-linux-gnu, num-cores: 2"
TARGETS = f"targets:\n  pc: {{{CPU}}}\n  vnni: {{{CPU}, mattr: [+avx512vnni], precision: int8, enabled: false}}\n"
LIMITS = "max_threads_per_block: 1024, max_shared_memory_per_block: 49152, thread_warp_size: 32"
HOST = "host: {mtriple: x86_64-linux-gnu, num-cores: 2}"
NET = "models:\n  net: {source: {path: models/net.onnx}, "


@pytest.mark.parametrize(
    "target",
    [
        "kind: llvm, mcpu: cortex-a72, mtriple: aarch64-linux-gnu, num-cores: 4",
        f"kind: cuda, arch: sm_75, {LIMITS}, {HOST}",
        f"kind: vulkan, supports_int64: true, {LIMITS}, {HOST}",
    ],
)
def test_every_kind_computes_in_integers(load: Load, target: str) -> None:
    assert load(targets=f"targets:\n  t: {{{target}, precision: int8}}\n").targets[0].precision == "int8"


def test_how_a_model_is_quantised(load: Load, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    for index in range(10):
        (tmp_path / "pictures" / f"{index}.png").write_bytes(b"picture")
    text = NET + "preprocess: {}, quantize: {calibration: {images: [pictures/*.png, pictures/1*]"
    (model,) = load(models=text + "}}}\n", targets=TARGETS).models
    every = tuple(f"pictures/{index}.png" for index in range(10))
    assert model.quantize == Quantize(Calibration("images", every, 64), "nncf", ())
    more = ", count: 4}, method: onnxruntime, exclude: [Softmax, 'head/*']}}\n"
    (model,) = load(models=text + more, targets=TARGETS).models
    few = tuple(f"pictures/{index}.png" for index in (0, 2, 5, 7))
    assert model.quantize == Quantize(Calibration("images", few, 4), "onnxruntime", ("Softmax", "head/*"))


def test_arrays_to_quantise_by(load: Load, tmp_path: Path) -> None:
    (tmp_path / "real.npz").write_bytes(b"arrays")
    (model,) = load(models=NET + "quantize: {calibration: {inputs: real.npz}}}\n", targets=TARGETS).models
    assert model.quantize == Quantize(Calibration("inputs", ("real.npz",)))


def test_tolerance_of_integers(load: Load) -> None:
    (model,) = load(models=NET + "tolerance: {atol: 0.5, int8: {of_largest: 0.1}}}\n").models
    assert model.tolerance_in("int8") == Tolerance(1e-3, 0.5, 0.1)


MISTAKES = {
    "no such picture": (
        "preprocess: {}, quantize: {calibration: {images: [none/*.png]}}",
        'models.yaml:2:92: models.net.quantize.calibration.images[0]: "none/*.png" matches no file; expected a glob of pictures',
    ),
    "pictures without preprocessing": (
        "quantize: {calibration: {images: [models/*]}}",
        "models.yaml:2:67: models.net.quantize.calibration.images: the model does not say how a picture becomes its input; expected `preprocess`",
    ),
    "no such file": (
        "quantize: {calibration: {inputs: real.npz}}",
        "models.yaml:2:75: models.net.quantize.calibration.inputs: the file real.npz does not exist; expected a path relative to the project's folder",
    ),
    "no samples at all": (
        "quantize: {method: nncf}",
        'models.yaml:2:42: models.net.quantize: the key "calibration" is missing; expected calibration: real inputs by which the ranges of activations are found: images or inputs',
    ),
    "both": (
        "quantize: {calibration: {images: [a], inputs: b}}",
        "models.yaml:2:80: models.net.quantize.calibration.inputs: images and inputs exclude each other; expected a map with exactly one of the keys images or inputs",
    ),
    "no sample": (
        "quantize: {calibration: {inputs: models/net.onnx, count: 0}}",
        "models.yaml:2:99: models.net.quantize.calibration.count: 0 is too small; expected at least 1",
    ),
    "a misspelt library": (
        "quantize: {calibration: {inputs: models/net.onnx}, method: ncf}",
        'models.yaml:2:101: models.net.quantize.method: "ncf" is not valid; expected nncf or onnxruntime; did you mean "nncf"?',
    ),
    "a search without a threshold": (
        "quantize: {calibration: {inputs: models/net.onnx}, keep: auto}, accuracy: {inputs: models/net.onnx}",
        "models.yaml:2:93: models.net.quantize.keep: the model's `accuracy:` has no threshold that the search could keep; expected top1, rms, of_largest, drop or at_least in `accuracy`",
    ),
    "accuracy control by another library": (
        "quantize: {calibration: {inputs: models/net.onnx}, method: onnxruntime, accuracy_control: true}, accuracy: {inputs: models/net.onnx, rms: 1}",
        "models.yaml:2:114: models.net.quantize.accuracy_control: accuracy control is NNCF's; expected `method: nncf`, or `keep: auto`",
    ),
    "two searches": (
        "quantize: {calibration: {inputs: models/net.onnx}, keep: auto, accuracy_control: true}, accuracy: {inputs: models/net.onnx, rms: 1}",
        "models.yaml:2:105: models.net.quantize.accuracy_control: `keep: auto` searches for the same operators; expected one of both",
    ),
    "accuracy control without a threshold": (
        "quantize: {calibration: {inputs: models/net.onnx}, accuracy_control: true}, accuracy: {inputs: models/net.onnx}",
        "models.yaml:2:93: models.net.quantize.accuracy_control: the model's `accuracy:` has no threshold that the search could keep; expected top1, rms, of_largest, drop or at_least in `accuracy`",
    ),
    "a misspelt key": (
        "quantize: {calibration: {inputs: models/net.onnx}, exlude: [Softmax]}",
        'models.yaml:2:93: models.net.quantize.exlude: unknown key; expected calibration, method, exclude, keep or accuracy_control; did you mean "exclude"?',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_meant(load_mistakes: Callable[..., list[str]], name: str) -> None:
    text, message = MISTAKES[name]
    assert load_mistakes(models=f"{NET}{text}}}\n", targets=TARGETS) == [message]


def test_a_model_that_is_quantised_for_nobody(load_mistakes: Callable[..., list[str]]) -> None:
    text = "quantize: {calibration: {inputs: models/net.onnx}}"
    message = "models.yaml:2:42: models.net.quantize: the model is built for no target with `precision: int8`, so that nothing is quantised; expected such a target in targets.yaml"
    assert load_mistakes(models=f"{NET}{text}}}\n") == [message]
    assert load_mistakes(models=f"{NET}{text}, targets: {{exclude: [v*]}}}}\n", targets=TARGETS) == [message]


def test_files_of_a_model_that_is_off_may_be_absent(load: Load) -> None:
    text = "enabled: false, quantize: {calibration: {inputs: real.npz}}"
    assert load(models=f"{NET}{text}}}\n", targets=TARGETS).models[0].quantize is not None


def test_the_float_model_of_a_quantised_one(load: Load, load_mistakes: Callable[..., list[str]]) -> None:
    (model,) = load(models=NET + "accuracy: {inputs: models/net.onnx, original: models/net.onnx}}\n").models
    assert model.accuracy is not None
    assert model.accuracy.original == "models/net.onnx"
    twice = "quantize: {calibration: {inputs: models/net.onnx}}, accuracy: {inputs: models/net.onnx, original: no.onnx}"
    assert load_mistakes(models=f"{NET}{twice}}}\n", targets=TARGETS) == [
        "models.yaml:2:130: models.net.accuracy.original: the model is quantised here, so its own file is the original; expected no `original`, or no `quantize`",
        "models.yaml:2:140: models.net.accuracy.original: the file no.onnx does not exist; expected a path relative to the project's folder",
    ]
