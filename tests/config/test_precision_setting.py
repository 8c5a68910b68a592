"""The key `precision` of a target, and the tolerance and real inputs of a model."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tvm.target import Target, codegen

from tvmbuild.base.specs import Accuracy, Metric, Project, Tolerance
from tvmbuild.targets.fp16_cpus import FP16_CPUS

Load = Callable[..., Project]
CPU = "targets:\n  pc: {{kind: llvm, mcpu: {}, mtriple: {}, num-cores: 2, precision: {}}}\n"
LIMITS = "max_threads_per_block: 1024, max_shared_memory_per_block: 49152, thread_warp_size: 32"
GPU = "targets:\n  gpu: {{kind: {}, " + LIMITS + ", {}, host: {{mtriple: x86_64-linux-gnu, num-cores: 2}}}}\n"


@pytest.mark.parametrize(
    "targets",
    [
        CPU.format("sapphirerapids", "x86_64-linux-gnu", "fp16"),
        CPU.format("x86-64-v4, mattr: [+avx512fp16]", "x86_64-linux-gnu", "fp16"),
        CPU.format("cortex-a76", "aarch64-linux-gnu", "fp16"),
        CPU.format("cortex-a72, mattr: [-crc, +fullfp16]", "aarch64-linux-gnu", "fp16"),
        CPU.format("x86-64-v3", "x86_64-linux-gnu", "fp32"),
        GPU.format("cuda", "arch: sm_90a, precision: bf16"),
        GPU.format("cuda", "arch: sm_75, precision: fp16"),
        GPU.format(
            "vulkan", "supports_int64: true, supports_float16: true, supports_16bit_buffer: true, precision: fp16"
        ),
    ],
)
def test_precision_of_hardware_that_has_it(load: Load, targets: str) -> None:
    (target,) = load(targets=targets).targets
    assert target.precision == targets.partition("precision: ")[2][:4]
    assert "precision" not in target.attributes


MISTAKES = {
    "fp16 of a CPU without it": (
        CPU.format("x86-64-v3", "x86_64-linux-gnu", "fp16"),
        "targets.yaml:2:89: targets.pc.precision: fp16: x86-64-v3 has no fp16 arithmetic; expected fp32, an mcpu that has it, or mattr: [+avx512fp16] where the CPU does",
    ),
    "fp16 taken away": (
        CPU.format("sapphirerapids, mattr: [-avx512fp16]", "x86_64-linux-gnu", "fp16"),
        "targets.yaml:2:116: targets.pc.precision: fp16: mattr takes avx512fp16 away, and without it there is no fp16 arithmetic; expected fp32",
    ),
    "fp16 of a Raspberry Pi 4": (
        CPU.format("cortex-a72", "aarch64-linux-gnu", "fp16"),
        "targets.yaml:2:91: targets.pc.precision: fp16: cortex-a72 has no fp16 arithmetic; expected fp32, an mcpu that has it, or mattr: [+fullfp16] where the CPU does",
    ),
    "fp16 of another architecture": (
        CPU.format("sifive-x280", "riscv64-linux-gnu", "fp16"),
        "targets.yaml:2:92: targets.pc.precision: fp16: tvmbuild knows no fp16 arithmetic of riscv64; expected fp32",
    ),
    "bf16 of a CPU": (
        CPU.format("sapphirerapids", "x86_64-linux-gnu", "bf16"),
        "targets.yaml:2:94: targets.pc.precision: bf16: TVM converts each bfloat16 of a CPU by itself, which takes many times as long as fp32; expected fp16 (where the CPU has it) or fp32",
    ),
    "tf32 of a CPU": (
        CPU.format("sapphirerapids", "x86_64-linux-gnu", "tf32"),
        "targets.yaml:2:94: targets.pc.precision: tf32: TF32 is what NVIDIA's tensor cores multiply; a CPU computes float32; expected fp32",
    ),
    "tf32 of an old GPU": (
        GPU.format("cuda", "arch: sm_75, precision: tf32"),
        "targets.yaml:2:132: targets.gpu.precision: tf32: sm_75 has no tf32 arithmetic, which begins with sm_80; expected fp32",
    ),
    "bf16 of an old GPU": (
        GPU.format("cuda", "arch: sm_75, precision: bf16"),
        "targets.yaml:2:132: targets.gpu.precision: bf16: sm_75 has no bf16 arithmetic, which begins with sm_80; expected fp32",
    ),
    "fp16 of a GPU that does not say so": (
        GPU.format("vulkan", "supports_int64: true, supports_16bit_buffer: true, precision: fp16"),
        "targets.yaml:2:172: targets.gpu.precision: fp16: fp16 needs supports_float16: true; expected these attributes where the device has them, or fp32",
    ),
    "another word": (
        CPU.format("x86-64-v3", "x86_64-linux-gnu", "half"),
        'targets.yaml:2:89: targets.pc.precision: "half" is not valid; expected fp32, tf32, fp16, bf16 or int8, or a list of them',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_precision_of_hardware_that_lacks_it(load_mistakes: Callable[..., list[str]], name: str) -> None:
    targets, message = MISTAKES[name]
    assert load_mistakes(targets=targets) == [message]


def test_cpus_with_fp16_are_those_that_llvm_knows() -> None:
    for machine, (feature, cpus) in FP16_CPUS.items():

        def describe(cpu: str, triple: str = f"{machine}-linux-gnu") -> Target:
            return Target({"kind": "llvm", "mtriple": triple, "mcpu": cpu})

        known = {str(name) for name in codegen.llvm_get_cpu_archlist(describe("generic"))}
        having = {cpu for cpu in known if feature in {str(f) for f in codegen.llvm_get_cpu_features(describe(cpu))}}
        assert having == cpus, machine


def test_a_list_of_precisions_makes_a_target_for_each(load: Load) -> None:
    models = "models:\n  net: {source: {path: models/net.onnx}, targets: {exclude: ['*-int8']}}\n"
    project = load(models=models, targets=CPU.format("sapphirerapids", "x86_64-linux-gnu", "[fp32, fp16, int8]"))
    found = {target.name: target.precision for target in project.targets}
    assert found == {"pc": "fp32", "pc-fp16": "fp16", "pc-int8": "int8"}
    assert len({(target.attributes, target.device) for target in project.targets}) == 1
    assert [target.name for target in project.targets if project.models[0].includes(target.name)] == ["pc", "pc-fp16"]


LISTS = {
    "an unknown one": (
        CPU.format("x86-64-v3", "x86_64-linux-gnu", "[fp32, fp8]"),
        'targets.yaml:2:96: targets.pc.precision[1]: "fp8" is not valid; expected fp32, tf32, fp16, bf16 or int8',
    ),
    "one that the CPU lacks": (
        CPU.format("x86-64-v3", "x86_64-linux-gnu", "[fp32, fp16]"),
        "targets.yaml:2:89: targets.pc.precision: fp16: ",
    ),
    "a name that is taken": (
        CPU.format("x86-64-v3", "x86_64-linux-gnu", "[fp32, int8]")
        + "  pc-int8: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}\n",
        "targets.yaml:2:89: targets.pc.precision: the target pc-int8 stands in the file, too; expected another name for it",
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_precisions_that_cannot_be(load_mistakes: Callable[..., list[str]], name: str) -> None:
    text, message = LISTS[name]
    (found,) = load_mistakes(targets=text)
    assert found.startswith(message)


def test_tolerance_of_a_precision(load: Load) -> None:
    models = "models:\n  net: {source: {path: models/net.onnx}, tolerance: {atol: 0.5, fp16: {rtol: 1e-4}}}\n"
    (model,) = load(models=models).models
    assert model.tolerance_in("fp32") == Tolerance(1e-3, 0.5)
    assert model.tolerance_in("fp16") == Tolerance(1e-4, 0.5, 0.02)
    assert model.tolerance_in("bf16") == Tolerance(5e-2, 0.5, 0.1)


def test_pictures_for_the_accuracy(load: Load, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    for name in ("b.png", "a.png", "c.jpg"):
        (tmp_path / "pictures" / name).write_bytes(b"picture")
    globs = "images: [pictures/*.png, pictures/a*]"
    models = f"models:\n  net: {{source: {{path: models/net.onnx}}, preprocess: {{}}, accuracy: {{{globs}}}}}\n"
    (model,) = load(models=models).models
    assert model.accuracy == Accuracy("images", ("pictures/a.png", "pictures/b.png"))
    (model,) = load(models=models.replace("a*]", "a*], top1: 1, rms: 5e-2, of_largest: 0.1")).models
    assert model.accuracy == Accuracy("images", ("pictures/a.png", "pictures/b.png"), 1.0, 0.05, 0.1)


def test_a_metric_of_the_users(load: Load, tmp_path: Path) -> None:
    for name in ("score.py", "truths.json"):
        (tmp_path / name).write_text("")
    asked = "inputs: models/net.onnx, metric: 'score.py:map50', truths: truths.json, drop: 0, at_least: 1"
    (model,) = load(models=f"models:\n  net: {{source: {{path: models/net.onnx}}, accuracy: {{{asked}}}}}\n").models
    metric = Metric("score.py", "map50", "truths.json", 0.0, 1.0)
    assert model.accuracy == Accuracy("inputs", ("models/net.onnx",), metric=metric)


ACCURACY = {
    "a percentage": (
        "accuracy: {inputs: models/net.onnx, top1: 97}",
        "models.yaml:2:84: models.net.accuracy.top1: 97 is too large; expected at most 1",
    ),
    "exactly the same": (
        "accuracy: {inputs: models/net.onnx, rms: 0}",
        "models.yaml:2:83: models.net.accuracy.rms: 0 is too small; expected more than 0",
    ),
    "no number": (
        "accuracy: {inputs: models/net.onnx, of_largest: .nan}",
        'models.yaml:2:90: models.net.accuracy.of_largest: ".nan" is not a finite number; expected a finite number',
    ),
    "another word": (
        "accuracy: {inputs: models/net.onnx, top_1: 0.9}",
        'models.yaml:2:78: models.net.accuracy.top_1: unknown key; expected inputs, original, top1, rms, of_largest, metric, truths, drop or at_least; did you mean "top1"?',
    ),
    "thresholds alone": (
        "accuracy: {top1: 0.9}",
        "models.yaml:2:42: models.net.accuracy: none of the keys images or inputs is there; expected a map with exactly one of the keys images or inputs",
    ),
    "both": (
        "preprocess: {}, accuracy: {inputs: models/net.onnx, images: [models/*]}",
        "models.yaml:2:69: models.net.accuracy.inputs: images and inputs exclude each other; expected a map with exactly one of the keys images or inputs",
    ),
    "no such picture": (
        "preprocess: {}, accuracy: {images: [none/*.png]}",
        'models.yaml:2:78: models.net.accuracy.images[0]: "none/*.png" matches no file; expected a glob of pictures',
    ),
    "pictures without preprocessing": (
        "accuracy: {images: [models/*]}",
        "models.yaml:2:53: models.net.accuracy.images: the model does not say how a picture becomes its input; expected `preprocess`",
    ),
    "a metric without its function": (
        "accuracy: {inputs: models/net.onnx, metric: score.py}",
        'models.yaml:2:86: models.net.accuracy.metric: "score.py" is not valid; expected FILE.py:FUNCTION, such as score.py:map50',
    ),
    "no such metric": (
        "accuracy: {inputs: models/net.onnx, metric: 'score.py:map50'}",
        "models.yaml:2:86: models.net.accuracy.metric: the file score.py does not exist; expected a path relative to the project's folder",
    ),
    "a drop of nothing": (
        "accuracy: {inputs: models/net.onnx, drop: 0.01}",
        "models.yaml:2:78: models.net.accuracy.drop: there is no metric that it belongs to; expected `metric`",
    ),
    "no such file": (
        "accuracy: {inputs: real.npz}",
        "models.yaml:2:61: models.net.accuracy.inputs: the file real.npz does not exist; expected a path relative to the project's folder",
    ),
}


@pytest.mark.parametrize("name", ACCURACY)
def test_real_inputs_that_are_not_there(load_mistakes: Callable[..., list[str]], name: str) -> None:
    text, message = ACCURACY[name]
    assert load_mistakes(models=f"models:\n  net: {{source: {{path: models/net.onnx}}, {text}}}\n") == [message]
