from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from tvm import relax

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import NoDevice
from tvmbuild.base.files import sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Classes, Text
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.steps import CompileStep, Settings, SimplifyStep, Step, TuneStep
from tvmbuild.building.package import check_coverage
from tvmbuild.compiler.apply import Coverage
from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import extract_package, read_metadata
from tvmbuild.package.memory import find_memory
from tvmbuild.package.weights import FILLER
from tvmbuild.records.schedule import Schedule
from tvmbuild.stages import compile as compile_stage
from tvmbuild.stages import simplify as simplify_stage
from tvmbuild.stages import tune as tune_stage

X86: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
PI4: Attributes = FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-unknown-linux-gnu", "num-cores": 4})
H200: Attributes = FrozenMap(
    {
        "arch": "sm_90",
        "max_num_threads": 1024,
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
    }
)
FRESH = """
import pickle, sys
from pathlib import Path
from tvmbuild.stages.compile import run
run(pickle.loads(Path(sys.argv[1]).read_bytes()))
"""
MakeStep = Callable[..., Step[CompileStep]]
MakeSimplifyStep = Callable[..., Step[SimplifyStep]]


@pytest.fixture
def make_step(tmp_path: Path, dense: Callable[..., onnx.ModelProto]) -> MakeStep:
    def make(model: Path | None = None, options: CompileStep | None = None, **schedule: Any) -> Step[CompileStep]:
        if model is None:
            model = tmp_path / "model.onnx"
            onnx.save(dense((1, 4)), str(model))
        path = tmp_path / "schedule.json"
        path.write_text(json.dumps({"format": 1, "layout": None, "schedule": {}} | schedule))
        labels = tmp_path / "labels.txt"
        labels.write_text("cat\ndog\nowl\n")
        return Step(
            "compile",
            "net@x86-64-v3",
            options or CompileStep("net", "x86-64-v3", "llvm", X86, FrozenMap(), "auto", None, Preprocess(color="bgr")),
            FrozenMap({"model": model, "schedule": path, "labels": labels}),
            FrozenMap({"package": tmp_path / "net-x86-64-v3.tar"}),
            FrozenMap({"tvm": "0.27.0.post1"}),
        )

    return make


def run_package(package: Path, folder: Path, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    info = extract_package(package, folder)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "mod.so")), tvm.cpu())
    params = tvm.runtime.load_param_dict((folder / "mod.params").read_bytes())
    inputs = [tvm.runtime.tensor(feed[tensor.name]) for tensor in info.inputs]
    got = machine[info.entry](*inputs, *(params[name] for name in sorted(params) if not name.startswith(FILLER)))
    return [got.numpy()] if len(info.outputs) == 1 else [output.numpy() for output in got]


def test_the_package_says_what_it_is_and_computes_the_model(make_step: MakeStep, tmp_path: Path) -> None:
    step = make_step()
    compile_stage.run(step)
    info = read_metadata(step.output("package"))
    assert (info.model, info.target.name, info.params, info.layout) == ("net", "x86-64-v3", "lifted", "NCHW")
    assert info.labels == ("cat", "dog", "owl")
    assert info.preprocess == Preprocess(color="bgr")
    assert info.coverage.covered == 0
    assert len(info.coverage.uncovered) == info.coverage.tasks > 0
    assert info.digests == {role: sha256_file(path) for role, path in step.inputs.items()}
    assert info.tools == {"tvm": "0.27.0.post1"}
    (operator,) = info.operators or ()
    assert (operator.name, operator.covered) == (info.coverage.uncovered[0], False)
    assert (operator.flops, operator.bytes) == (2 * 4 * 3 + 3, 4 * (4 + 4 * 3 + 3))
    feed = {"x": np.array([[1, -2, 3, 4]], "float32")}
    want = onnxruntime.InferenceSession(str(step.input("model"))).run(None, feed)
    np.testing.assert_allclose(run_package(step.output("package"), tmp_path / "p", feed)[0], want[0], rtol=1e-5)


def test_a_schedule_of_another_format_is_refused(make_step: MakeStep) -> None:
    step = make_step(format=9)
    with pytest.raises(TvmbuildError) as caught:
        compile_stage.run(step)
    assert caught.value.message == "schedule.json has the format 9; this tvmbuild reads 1"
    assert caught.value.hint == "run the cell's tune step again"
    assert not step.output("package").exists()


def test_a_scheduled_task_that_the_model_does_not_have_is_refused(make_step: MakeStep) -> None:
    step = make_step(schedule={"0" * 16: {"trace": {"decisions": [], "instructions": []}}})
    with pytest.raises(TvmbuildError, match=r"1 record of schedule\.json not applied: 0000000000000000"):
        compile_stage.run(step)
    assert not step.output("package").exists()


def test_a_record_that_was_not_applied_is_refused() -> None:
    coverage = Coverage(covered=FrozenMap({"a": "conv2d"}), uncovered=FrozenMap({"b": "matmul", "c": "add"}))
    check_coverage(coverage, Schedule(FrozenMap({"a": ""})), "net@x86-64-v3")
    with pytest.raises(TvmbuildError, match=r"1 record .* not applied: matmul \(b\)") as caught:
        check_coverage(coverage, Schedule(FrozenMap({"a": "", "b": ""})), "net@x86-64-v3")
    assert "doit forget tune:net@x86-64-v3" in (caught.value.hint or "")


def test_labels_that_are_no_text_are_refused(make_step: MakeStep) -> None:
    step = make_step()
    step.input("labels").write_bytes(b"caf\xe9\n")
    with pytest.raises(TvmbuildError, match=r"labels\.txt is not text in UTF-8") as caught:
        compile_stage.run(step)
    assert "labels:" in (caught.value.hint or "")


def test_results_and_labels_that_do_not_fit_are_refused_before_code_is_generated(make_step: MakeStep) -> None:
    options = CompileStep("net", "x86-64-v3", "llvm", X86, FrozenMap(), "no-such-linker", None, None)
    for asked, message in ((Text(), "`text` needs an output"), (Classes(), "has 4 names, and the result `classes`")):
        step = make_step(options=replace(options, postprocess=(asked,)))
        step.input("labels").write_text("cat\ndog\nowl\nbee\n")
        with pytest.raises(TvmbuildError, match=message):
            compile_stage.run(step)


def compile_in_fresh_processes(step: Step[CompileStep], folder: Path) -> bytes:
    """Return the package that two processes with other hash seeds and folders both make."""
    (folder / "step.pickle").write_bytes(pickle.dumps(step))
    packages = []
    for name, seed in (("a", "1"), ("another-folder", "2")):
        inner = folder / name
        inner.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TMPDIR": str(inner), "TVM_NUM_THREADS": "2"}
        command = [sys.executable, "-c", FRESH, str(folder / "step.pickle")]
        subprocess.run(command, cwd=inner, env=environment, capture_output=True, check=True)
        packages.append(step.output("package").read_bytes())
        step.output("package").unlink()
    assert packages[0] == packages[1]
    assert str(folder).encode() not in packages[0]
    return packages[0]


@pytest.mark.compiler
def test_two_fresh_processes_make_the_same_bytes(make_step: MakeStep, project_root: Path, tmp_path: Path) -> None:
    compile_in_fresh_processes(make_step(project_root / "models" / "silero_vad.onnx"), tmp_path)


@pytest.mark.nightly
@pytest.mark.compiler
def test_two_fresh_processes_make_the_same_bytes_of_the_shipped_records(
    make_step: MakeStep, simplify_step: MakeSimplifyStep, project_root: Path, tmp_path: Path
) -> None:
    simplify = simplify_step(project_root / "models" / "silero_vad.onnx")
    simplify_stage.run(simplify)
    project = load_project(project_root)
    target = next(target for target in project.targets if target.name == "x86-64-v3")
    tune = Step(
        "tune",
        "silero_vad@x86-64-v3",
        TuneStep(target.name, "llvm", target.attributes, FrozenMap(), target.measured_on, NoDevice(), target.tune),
        FrozenMap({"model": simplify.output("model")}),
        FrozenMap({role: tmp_path / f"{role}.json" for role in ("tasks", "schedule", "info")}),
        root=project_root,
        settings=Settings(tune="never"),
    )
    tune_stage.run(tune)
    schedule = json.loads(tune.output("schedule").read_text())
    assert schedule["schedule"]
    options = CompileStep("net", target.name, "llvm", target.attributes, FrozenMap(), "auto", target.glibc, None)
    step = make_step(simplify.output("model"), options, **schedule)
    package = compile_in_fresh_processes(step, tmp_path)
    step.output("package").write_bytes(package)
    covered = read_metadata(step.output("package")).coverage.covered
    assert covered == len(schedule["schedule"])
    shapes = params_shapes(step.output("package"), tmp_path / "tuned")
    compile_stage.run(make_step(simplify.output("model"), options))
    assert shapes != params_shapes(step.output("package"), tmp_path / "untuned"), "no parameter was repacked"


def params_shapes(package: Path, folder: Path) -> list[tuple[int, ...]]:
    extract_package(package, folder)
    params = tvm.runtime.load_param_dict((folder / "mod.params").read_bytes())
    return [tuple(params[name].shape) for name in sorted(params) if not name.startswith(FILLER)]


OTHERS = (
    CompileStep("digits", "pi4", "llvm", PI4, FrozenMap(), "auto", "2.28", None),
    CompileStep(
        "digits", "x86-64-v4", "llvm", FrozenMap({**X86, "mcpu": "x86-64-v4"}), FrozenMap(), "auto", None, None
    ),
    CompileStep("digits", "h200", "cuda", H200, X86, "auto", None, None),
)


@pytest.mark.compiler
@pytest.mark.parametrize("cell", OTHERS, ids=lambda cell: cell.target)
def test_real_networks_build_for_other_targets(make_step: MakeStep, digits: Path, cell: CompileStep) -> None:
    step = make_step(digits, cell)
    compile_stage.run(step)
    info = read_metadata(step.output("package"))
    target = info.target
    stated = {"driver": "12.0"} if cell.kind == "cuda" else {}
    assert (target.kind, target.host) == (cell.kind, cell.host)
    assert target.attributes == {**cell.attributes, **stated}
    assert target.glibc == cell.glibc
    assert info.layout == ("NCHW" if cell.kind == "cuda" else "NHWC")


def test_a_package_beyond_the_targets_memory_is_refused_with_what_takes_it(make_step: MakeStep) -> None:
    options = CompileStep("net", "x86-64-v3", "llvm", X86, FrozenMap(), "auto", None, None, memory=10**9)
    step = make_step(options=options)
    compile_stage.run(step)
    info = read_metadata(step.output("package"))
    taken = find_memory(info)
    assert info.workspace is not None
    assert info.workspace % 4096 == 0
    assert info.workspace > 0
    step.output("package").unlink()
    with pytest.raises(
        TvmbuildError, match=r"net@x86-64-v3 takes .*workspace.*, more than the allowed \d+ kB; "
    ) as caught:
        compile_stage.run(make_step(options=replace(options, memory=taken.total - 1000)))
    assert "code" in caught.value.message
    largest = r"the largest arrays are .*(weights|workspace) float32\[.*\] of matmul\w* \(\d+ kB\)"
    assert re.search(largest, caught.value.message)
    assert not step.output("package").exists()
