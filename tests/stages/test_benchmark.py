from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.files import write_json
from tvmbuild.package.archive import read_package, write_package
from tvmbuild.specs import BenchmarkOptions, BenchmarkStep, DeviceSpec, Step, Tolerance
from tvmbuild.stages import benchmark
from tvmbuild.stages.reference import Reference, read_reference, write_reference

CELL = "net@here"


def bench_step(folder: Path, options: BenchmarkStep | None = None) -> Step:
    names = {"package": "net-here.tar", "model": "model.onnx", "reference": "reference.npz"}
    if options is None:
        options = BenchmarkStep("here", "llvm", DeviceSpec(), 2, Tolerance(), BenchmarkOptions(number=1, repeat=12))
    return Step(
        "benchmark",
        CELL,
        options,
        inputs=tuple((role, folder / name) for role, name in names.items()),
        outputs=(("result", folder / "result.json"),),
        root=folder,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_models: Path) -> Path:
    """A folder with mnist simplified and compiled for any x86-64 CPU."""
    folder = tmp_path_factory.mktemp("built")
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(folder), TVM_NUM_THREADS="2")
    folder.chmod(0o700)
    write_json(folder / "schedule.json", {"format": 1, "layout": "NHWC", "schedule": {}})
    program = f"""
from pathlib import Path
from tvmbuild.specs import CompileStep, InputSpec, SimplifyOptions, SimplifyStep, Source, Step
from tvmbuild.stages import compile, simplify
folder = Path({str(folder)!r})
names = (("model", "model.onnx"), ("reference", "reference.npz"), ("info", "simplify.json"))
outputs = tuple((role, folder / name) for role, name in names)
source = Source("path", {str(shared_models / "mnist.onnx")!r})
simplify.run(Step("simplify", "net", SimplifyStep("net", source, (), SimplifyOptions()), outputs=outputs))
options = CompileStep("net", "here", "llvm", (("mcpu", "x86-64"), ("num-cores", 2)), (), "auto", None, None)
inputs = (("model", folder / "model.onnx"), ("schedule", folder / "schedule.json"))
compile.run(Step("compile", "net@here", options, inputs=inputs, outputs=(("package", folder / "net-here.tar"),)))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, check=True, timeout=300)
    return folder


@pytest.fixture
def cell(built: Path, tmp_path: Path) -> Path:
    """A copy of the built folder that a test may change."""
    for name in ("model.onnx", "reference.npz", "net-here.tar"):
        (tmp_path / name).write_bytes((built / name).read_bytes())
    return tmp_path


def refused(step: Step) -> TvmbuildError:
    with pytest.raises(TvmbuildError) as caught:
        benchmark.run(step)
    assert not step.output("result").exists()
    return caught.value


@pytest.mark.compiler
def test_a_right_package_is_measured(cell: Path) -> None:
    step = bench_step(cell)
    benchmark.run(step)
    result = json.loads(step.output("result").read_text())
    assert result["ok"]
    assert result["threads"] == 2
    assert 0 < result["max_abs_error"] < 1e-3
    for key in ("latency_ms", "onnxruntime_ms"):
        assert result[key]["repeat"] == 12
        assert 0 < result[key]["min"] <= result[key]["median"] <= result[key]["p95"]
    assert result["ratio"] == pytest.approx(
        result["latency_ms"]["median"] / result["onnxruntime_ms"]["median"], rel=0.01
    )
    assert result["package_bytes"] == (cell / "net-here.tar").stat().st_size
    assert result["coverage"]["covered"] == 0
    assert result["coverage"]["tasks"] > 0


@pytest.mark.compiler
def test_wrong_numbers_fail_and_say_where(cell: Path) -> None:
    path = cell / "reference.npz"
    reference = read_reference(path)
    name, value = next(iter(reference.outputs.items()))
    wrong = value.copy()
    wrong[0, 7] += 0.5
    write_reference(path, Reference(reference.inputs, {name: wrong}))
    error = refused(bench_step(cell))
    assert "benchmark:net@here: the package computes wrong numbers" in error.message
    assert f"output {name} is wrong in 1 of 10 elements, most at [0, 7]: got " in error.message
    assert "off by 0.5 where " in error.message


@pytest.mark.compiler
def test_a_tolerance_of_nothing_is_not_met(cell: Path) -> None:
    options = bench_step(cell).options
    assert isinstance(options, BenchmarkStep)
    error = refused(bench_step(cell, replace(options, tolerance=Tolerance(0, 0))))
    assert "where 0 is allowed" in error.message


@pytest.mark.compiler
def test_a_damaged_package_is_refused(cell: Path) -> None:
    data = bytearray((cell / "net-here.tar").read_bytes())
    data[len(data) // 2] ^= 1
    (cell / "net-here.tar").write_bytes(data)
    assert "net-here.tar is damaged" in refused(bench_step(cell)).message


@pytest.mark.compiler
def test_a_package_of_another_machine_is_refused(cell: Path) -> None:
    package = read_package(cell / "net-here.tar")
    target = replace(package.info.target, attributes=(("mtriple", "riscv64-linux-gnu"),))
    write_package(cell / "net-here.tar", replace(package, info=replace(package.info, target=target)))
    assert "the package is built for riscv64 (here); this machine is " in refused(bench_step(cell)).message


@pytest.mark.compiler
def test_a_package_of_a_missing_backend_is_refused(cell: Path) -> None:
    package = read_package(cell / "net-here.tar")
    target = replace(package.info.target, kind="opencl")
    write_package(cell / "net-here.tar", replace(package, info=replace(package.info, target=target)))
    assert "the package needs TVM's opencl runtime, which is not there" in refused(bench_step(cell)).message


@pytest.mark.parametrize("kind", ["rpc", "qemu", "none"])
def test_devices_that_do_not_exist_yet(tmp_path: Path, kind: str) -> None:
    device = DeviceSpec(kind)  # type: ignore[arg-type]
    options = BenchmarkStep("here", "llvm", device, 2, Tolerance(), BenchmarkOptions())
    assert f"a device of kind {kind} is not possible yet" in refused(bench_step(tmp_path, options)).message


@pytest.mark.parametrize(
    ("call_ms", "number", "repeat", "samples"),
    [
        (1.0, 1, 50, 50),
        (400.0, 1, 50, 50),
        (1000.0, 1, 50, 20),
        (1000.0, 4, 50, 5),
        (60000.0, 1, 50, 5),
        (9e4, 1, 3, 3),
    ],
)
def test_slow_models_get_fewer_samples(call_ms: float, number: int, repeat: int, samples: int) -> None:
    assert benchmark.count_samples(call_ms, number, repeat) == samples


def test_median_p95_and_minimum() -> None:
    latency = benchmark.summarize([float(i) for i in np.random.RandomState(0).permutation(100) + 1], 3)
    assert (latency.median, latency.p95, latency.min, latency.repeat, latency.number) == (50.5, 95.0, 1.0, 100, 3)
