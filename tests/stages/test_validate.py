"""The numbers of cells without a device, computed by this machine's CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from small_package import build_package

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Accuracy, InputSpec, Tolerance
from tvmbuild.base.steps import SimplifyStep, Step, ValidateStep
from tvmbuild.benchmarking.validated import Validated
from tvmbuild.errors import TvmbuildError, VerdictError
from tvmbuild.preparing.reference import read_reference, write_reference
from tvmbuild.stages import simplify, validate
from tvmbuild.targets.table import target_kind
from tvmbuild.targets.vulkan_families import FAMILIES

MakeStep = Callable[..., Step[SimplifyStep]]
PI: Attributes = FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-unknown-linux-gnu", "num-cores": 4})
CARD: Attributes = FrozenMap({"arch": "sm_80", "max_num_threads": 1024, "max_shared_memory_per_block": 49152})
X86: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-unknown-linux-gnu"})
INTEL: Attributes = FrozenMap(sorted(FAMILIES["intel-iris-xe"].items()))

pytestmark = pytest.mark.compiler


@pytest.fixture
def step(simplify_step: MakeStep, dense: Callable[..., onnx.ModelProto], tmp_path: Path) -> Step[ValidateStep]:
    simplified = simplify_step(dense(), InputSpec("x", (2, 4)))
    simplify.run(simplified)
    write_json(tmp_path / "schedule.json", {"format": 1, "layout": None, "schedule": {}})
    inputs = {role: simplified.output(role) for role in ("model", "reference")}
    return Step(
        "validate",
        "net@pi",
        ValidateStep("pi", "llvm", PI, FrozenMap(), Tolerance()),
        inputs=FrozenMap({**inputs, "schedule": tmp_path / "schedule.json"}),
        outputs=FrozenMap({"validated": tmp_path / "cell" / "validated.json"}),
        root=tmp_path,
    )


def read_json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    return value


def read(step: Step[ValidateStep]) -> dict[str, Any]:
    return read_json(step.output("validated"))


def test_another_machines_code(step: Step[ValidateStep]) -> None:
    validate.run(step)
    assert read(step)["max_abs_error"] < 1e-5


def test_a_gpus_code(step: Step[ValidateStep]) -> None:
    validate.run(replace(step, options=ValidateStep("card", "cuda", CARD, X86, Tolerance())))
    assert read(step)["max_abs_error"] < 1e-5


def test_wrong_numbers(step: Step[ValidateStep]) -> None:
    reference = read_reference(step.input("reference"))
    outputs = {name: value + 1 for name, value in reference.outputs.items()}
    write_reference(step.input("reference"), replace(reference, outputs=outputs))
    with pytest.raises(
        TvmbuildError, match=r"validate:net@pi: computed on this CPU.* wrong numbers: output y is wrong"
    ):
        validate.run(step)
    assert not step.output("validated").exists()


def test_the_same_lowering_is_computed_once(step: Step[ValidateStep], tmp_path: Path) -> None:
    validate.run(step)
    (known,) = (tmp_path / "build" / "models" / "net" / "validated").iterdir()
    known.write_text(json.dumps(read(step) | {"max_abs_error": 0.25}))
    validate.run(step)
    assert read(step)["max_abs_error"] == 0.25
    validate.run(replace(step, options=ValidateStep("pi", "llvm", PI, FrozenMap(), Tolerance(1e-2, 1e-2))))
    assert read(step)["max_abs_error"] < 1e-5


def with_samples(step: Step[ValidateStep], folder: Path, **asked: float) -> Step[ValidateStep]:
    """Return the step with three samples, and thresholds."""
    samples = folder / "real.npz"
    np.savez(samples, x=np.random.RandomState(1).uniform(-1, 1, (6, 4)).astype(np.float32))
    accuracy = Accuracy("inputs", ("real.npz",), **asked)  # type: ignore[arg-type]
    options = replace(step.options, accuracy=accuracy)
    return replace(step, options=options, inputs=FrozenMap({**step.inputs, "sample 0": samples}))


def test_real_inputs_are_computed_too(step: Step[ValidateStep], tmp_path: Path) -> None:
    judged = with_samples(step, tmp_path, rms=1e-3)
    validate.run(judged)
    accuracy = read(judged)["accuracy"]
    assert (accuracy["samples"], accuracy["agreeing"]) == (6, 6)  # three times a batch of two
    assert accuracy["rms"] < 1e-5
    judged.output("validated").unlink()
    (known,) = (tmp_path / "build" / "models" / "net" / "validated").iterdir()
    known.write_text(json.dumps(read_json(known) | {"accuracy": {**accuracy, "rms": 2e-9}}))
    asked = replace(judged.options, accuracy=Accuracy("inputs", ("real.npz",), rms=1e-9))
    with pytest.raises(VerdictError, match=r"rms is 2e-09, allowed is 1e-09, worst is real.npz\[[012]\]"):
        validate.run(replace(judged, options=asked))  # computed once, whatever is asked
    assert read(judged)["accuracy"]["rms"] == 2e-9
    np.savez(tmp_path / "real.npz", x=np.ones((2, 4), np.float32))
    validate.run(judged)
    assert read(judged)["accuracy"]["samples"] == 2


def test_a_quantised_model_is_compared_with_what_it_was_made_of(
    step: Step[ValidateStep], simplify_step: MakeStep, tmp_path: Path
) -> None:
    class Reader(CalibrationDataReader):  # type: ignore[misc]
        left = iter([{"x": np.random.RandomState(seed).uniform(-1, 1, (2, 4)).astype(np.float32)} for seed in range(8)])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.left, None)

    original = tmp_path / "original.onnx"
    original.write_bytes(step.input("model").read_bytes())
    quantize_static(original, tmp_path / "int8.onnx", Reader(), per_channel=True)
    simplify.run(simplify_step(tmp_path / "int8.onnx"))
    assert b"DequantizeLinear" in step.input("model").read_bytes()
    judged = with_samples(step, tmp_path)
    validate.run(judged)
    assert read(judged)["accuracy"]["rms"] == 0
    judged = with_samples(replace(step, inputs=FrozenMap({**step.inputs, "original": original})), tmp_path, top1=1e-3)
    validate.run(judged)
    assert 1e-4 < read(judged)["accuracy"]["rms"] < 5e-2
    with pytest.raises(VerdictError, match="too far from the original model on real inputs: rms is"):
        validate.run(with_samples(judged, tmp_path, rms=1e-4))
    assert 1e-4 < read(judged)["accuracy"]["rms"] < 5e-2


def test_wrong_numbers_for_special_inputs_alone(step: Step[ValidateStep]) -> None:
    reference = read_reference(step.input("reference"))
    outputs = {name: value + 1 for name, value in reference.outputs.items()}
    write_reference(step.input("reference"), replace(reference, specials=replace(reference, outputs=outputs)))
    with pytest.raises(TvmbuildError, match="output y is wrong"):
        validate.run(step)
    write_reference(step.input("reference"), replace(reference, specials=reference))
    validate.run(step)


def test_scalars_and_code_that_tvm_has_for_gpus_alone(simplify_step: MakeStep, tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "s"], ["m"]), helper.make_node("CumSum", ["m", "axis"], ["y"])]
    shapes: dict[str, list[int]] = {"x": [2, 300], "s": [], "y": [2, 300]}
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    axis = numpy_helper.from_array(np.array(1), "axis")
    graph = helper.make_graph(nodes, "net", [values["x"], values["s"]], [values["y"]], [axis])
    simplified = simplify_step(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    simplify.run(simplified)
    write_json(tmp_path / "schedule.json", {"format": 1, "layout": None, "schedule": {}})
    made = {role: simplified.output(role) for role in ("model", "reference")}
    inputs = FrozenMap({**made, "schedule": tmp_path / "schedule.json"})
    options = ValidateStep("card", "cuda", CARD, X86, Tolerance())
    outputs = FrozenMap({"validated": tmp_path / "validated.json"})
    validate.run(Step("validate", "net@card", options, inputs, outputs, root=tmp_path))
    assert json.loads((tmp_path / "validated.json").read_text())["max_abs_error"] < 1e-3


@pytest.fixture
def on_vulkan(step: Step[ValidateStep], tmp_path: Path) -> Step[ValidateStep]:
    """A step whose package runs on this machine's driver."""
    package = build_package(step.input("model"), tmp_path, INTEL, "vulkan", X86)
    options = ValidateStep("nuc", "vulkan", INTEL, X86, Tolerance(), stand_in="llvmpipe")
    return replace(step, options=options, inputs=FrozenMap({**step.inputs, "package": package}))


@pytest.mark.vulkan
def test_a_device_of_this_machine_runs_the_package(on_vulkan: Step[ValidateStep]) -> None:
    validate.run(on_vulkan)
    assert read(on_vulkan)["max_abs_error"] < 1e-5
    assert read(on_vulkan)["device"] == target_kind("vulkan").find_device_class()
    reference = read_reference(on_vulkan.input("reference"))
    outputs = {name: value + 1 for name, value in reference.outputs.items()}
    write_reference(on_vulkan.input("reference"), replace(reference, outputs=outputs))
    with pytest.raises(TvmbuildError, match="validate:net@pi: the package computes wrong numbers: output y is wrong"):
        validate.run(on_vulkan)


@pytest.mark.vulkan
def test_what_a_device_of_this_machine_cannot_run_the_cpu_computes(
    on_vulkan: Step[ValidateStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVMBUILD_VULKAN_DEVICE", "no such device")
    validate.run(on_vulkan)
    assert read(on_vulkan)["max_abs_error"] < 1e-5
    assert "device" not in read(on_vulkan)
    validated = Validated.from_json(read(on_vulkan))
    assert validated is not None
    assert "on the CPU, for llvmpipe cannot run the package: " in validated.describe()
