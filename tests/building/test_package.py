"""The library's API for code: the work of the compile stage, without files and steps."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.files import sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.steps import CompileStep, Step
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import read_metadata, write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.schedule import Schedule, read_schedule
from tvmbuild.stages import compile as compile_stage

ATTRIBUTES: Attributes = FrozenMap({"mcpu": "x86-64", "num-cores": 2})
TARGET = PackageTarget("here", "llvm", ATTRIBUTES)

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("own_folders")]


def test_a_package_without_files(digits: Path) -> None:
    package = build_package(digits.read_bytes(), TARGET)
    assert (package.info.model, package.info.coverage.covered) == ("model", 0)
    assert build_package(digits, TARGET).info.model == digits.stem
    assert package.info.target.flags == ()
    v2 = replace(TARGET, attributes=FrozenMap({"mcpu": "x86-64-v2", "num-cores": 2}))
    assert build_package(digits, v2).info.target.flags == ("pni", "popcnt", "sse4_1", "sse4_2", "ssse3")


@pytest.mark.parametrize(("stride", "said"), [(1, False), (2, True)])
def test_it_says_which_operator_is_slow_without_records(stride: int, *, said: bool) -> None:
    """A depthwise convolution over volumes with a stride is the only one without tiles in the CPU rules."""
    weights = onnx.numpy_helper.from_array(np.ones((16, 1, 3, 3, 3), "float32"), "w")
    shapes = {"x": [1, 16, 6, 8, 8], "y": [1, 16, *(size // stride for size in (6, 8, 8))]}
    first, last = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=16, pads=[1] * 6, strides=[stride] * 3)
    model = helper.make_model(
        helper.make_graph([node], "g", [first], [last], [weights]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    notes = build_package(model.SerializeToString(), TARGET, options=BuildOptions("net")).info.notes
    assert notes == (("slow: without records: conv3d (100.0% of the operations)",) if said else ())


def test_the_stage_makes_the_same_bytes(digits: Path, tmp_path: Path) -> None:
    schedule = tmp_path / "schedule.json"
    schedule.write_text(Schedule(layout="NCHW").to_text())
    inputs = FrozenMap({"model": digits, "schedule": schedule})
    options = CompileStep("net", "here", "llvm", ATTRIBUTES, FrozenMap(), "auto", None, None)
    step = Step("compile", "net@here", options, inputs, FrozenMap({"package": tmp_path / "stage.tar"}))
    compile_stage.run(step)
    digests = FrozenMap({role: sha256_file(path) for role, path in inputs.items()})
    package = build_package(digits, TARGET, read_schedule(schedule), BuildOptions("net", digests=digests))
    write_package(tmp_path / "own.tar", package)
    assert (tmp_path / "own.tar").read_bytes() == (tmp_path / "stage.tar").read_bytes()


def test_validated_numbers(digits: Path) -> None:
    from tvmbuild.base.specs import Tolerance
    from tvmbuild.benchmarking.validation import lower_model, validate
    from tvmbuild.preparing.simplify import simplify

    simplified = simplify(digits)
    want = onnxruntime.InferenceSession(digits).run(None, dict(simplified.reference.inputs))[0]
    (output,) = simplified.reference.outputs.values()
    np.testing.assert_allclose(output, want, rtol=1e-4, atol=1e-5)
    assert 0 < validate(lower_model(simplified.model, TARGET), simplified.reference, Tolerance()).max_abs_error < 1e-3


def test_the_example_of_functions_runs(
    digits: Path, project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (project_root / "examples/functions/build.py").read_text(encoding="utf-8")
    shutil.copy(digits, tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "build.py", "exec"), {})  # noqa: S102 - the example is ours
    assert read_metadata(tmp_path / "net-pi4.tar").target.name == "pi4"
