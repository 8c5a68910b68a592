from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tvmbuild.base.device_specs import LocalDevice, NoDevice
from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import available_cores, cpu_name
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Accuracy, BenchmarkOptions, Tolerance
from tvmbuild.base.steps import BenchmarkStep, Step
from tvmbuild.benchmarking.contest import make_package_trial
from tvmbuild.benchmarking.history import read_history
from tvmbuild.benchmarking.results import Result, read_result
from tvmbuild.errors import TvmbuildError, VerdictError
from tvmbuild.package.archive import read_package, write_package
from tvmbuild.preparing.reference import Reference, read_reference, write_reference
from tvmbuild.stages import benchmark

CELL = "net@here"


def bench_step(folder: Path, options: BenchmarkStep | None = None) -> Step[BenchmarkStep]:
    names = {"package": "net-here.tar", "model": "model.onnx", "reference": "reference.npz"}
    if options is None:
        options = BenchmarkStep("here", "llvm", LocalDevice(), 2, Tolerance(), BenchmarkOptions(number=1, repeat=12))
    return Step(
        "benchmark",
        CELL,
        options,
        inputs=FrozenMap({role: folder / name for role, name in names.items()}),
        outputs=FrozenMap({"result": folder / "result.json"}),
        root=folder,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """A folder with the small network simplified and compiled for any x86-64 CPU."""
    folder = tmp_path_factory.mktemp("built")
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(folder), TVM_NUM_THREADS="2")
    folder.chmod(0o700)
    write_json(folder / "schedule.json", {"format": 1, "layout": "NHWC", "schedule": {}})
    program = f"""
from pathlib import Path
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.base.files import sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.preparing.reference import write_reference
from tvmbuild.preparing.simplify import simplify
from tvmbuild.records.schedule import read_schedule
folder = Path({str(folder)!r})
simplified = simplify(Path({str(digits)!r}), name="net")
(folder / "model.onnx").write_bytes(simplified.model)
write_reference(folder / "reference.npz", simplified.reference)
schedule = folder / "schedule.json"
target = PackageTarget("here", "llvm", FrozenMap({{"mcpu": "x86-64", "num-cores": 2}}))
options = BuildOptions("net", digests=FrozenMap({{"schedule": sha256_file(schedule)}}))
package = build_package(folder / "model.onnx", target, read_schedule(schedule), options)
write_package(folder / "net-here.tar", package)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, check=True, timeout=300)
    return folder


@pytest.fixture
def cell(built: Path, tmp_path: Path) -> Path:
    """A copy of the built folder that a test may change."""
    for name in ("model.onnx", "reference.npz", "net-here.tar"):
        (tmp_path / name).write_bytes((built / name).read_bytes())
    return tmp_path


def refused(step: Step[BenchmarkStep]) -> TvmbuildError:
    with pytest.raises(TvmbuildError) as caught:
        benchmark.run(step)
    assert not step.output("result").exists()
    return caught.value


def read_published(step: Step[BenchmarkStep]) -> Result:
    result = read_result(json.loads(step.output("result").read_text()))
    assert result is not None
    return result


@pytest.mark.compiler
def test_a_right_package_is_measured(cell: Path) -> None:
    step = bench_step(cell)
    benchmark.run(step)
    result = read_published(step)
    assert (result.cell, result.threads) == (CELL, 2)
    assert 0 < result.max_abs_error < 1e-3
    (rival,) = result.rivals
    assert (rival.name, rival.version) == ("onnxruntime", version("onnxruntime"))
    for latency in (result.latency, rival.latency):
        assert latency.repeat == 20  # 12 were requested: one a round
        assert 0 < latency.min <= latency.median.low <= latency.median.high
        assert latency.median.value <= latency.p95
    assert rival.ratio.value == pytest.approx(result.latency.median.value / rival.latency.median.value, rel=0.01)
    assert (result.product.target, result.product.size) == ("here", (cell / "net-here.tar").stat().st_size)
    assert result.product.covered == 0 < result.product.tasks
    assert sum(row.share for row in result.operators) == pytest.approx(1.0)
    assert result.machine.cpu == cpu_name()


@pytest.mark.compiler
def test_a_package_too_far_from_the_original_is_measured_and_refused(cell: Path) -> None:
    np.savez(cell / "real.npz", Input3=np.random.RandomState(0).uniform(0, 255, (3, 1, 28, 28)).astype(np.float32))
    step = bench_step(cell)
    inputs = FrozenMap({**step.inputs, "sample 0": cell / "real.npz"})
    options = replace(step.options, accuracy=Accuracy("inputs", ("real.npz",), top1=1.0, rms=1e-12))
    with pytest.raises(VerdictError, match="too far from the original model on real inputs: rms is"):
        benchmark.run(replace(step, options=options, inputs=inputs))
    accuracy = read_published(step).accuracy
    assert accuracy is not None
    assert (accuracy.samples, accuracy.agreeing) == (3, 3)
    assert accuracy.rms is not None
    assert 1e-12 < accuracy.rms < 1e-5
    assert len(read_history(Layout(cell).history).entries) == 1


@pytest.mark.compiler
def test_each_measurement_is_a_line_of_the_history(cell: Path) -> None:
    step = bench_step(cell)
    layout = Layout(cell)
    write_json(layout.cell_file("net", "here", "schedule.json"), {"format": 1, "layout": "NHWC", "schedule": {}})
    for _ in range(2):
        benchmark.run(step)
    first, second = read_history(layout.history).entries
    assert first.schedules == second.schedules == FrozenMap()
    assert second.result == replace(read_published(step), operators=())


@pytest.mark.compiler
def test_all_baselines_at_once(cell: Path) -> None:
    options = bench_step(cell).options
    asked = BenchmarkOptions(repeat=5, baselines=("tvm-untuned", "openvino", "onnxruntime"))
    step = bench_step(cell, replace(options, benchmark=asked))
    benchmark.run(step)
    result = read_published(step)
    measured = [rival.name for rival in result.rivals]
    if find_spec("openvino") is None:
        assert measured == ["tvm-untuned", "onnxruntime"]
        assert [(each.name, each.reason) for each in result.absent] == [
            ("openvino", "OpenVINO is not installed; `pip install 'tvmbuild[openvino]'` brings it")
        ]
    else:
        assert (measured, result.absent) == (["tvm-untuned", "openvino", "onnxruntime"], ())
    for rival in result.rivals:
        assert 0 < rival.ratio.low <= rival.ratio.value <= rival.ratio.high
        assert rival.latency.repeat >= 5
    assert not [warning for warning in result.warnings if "computes other numbers" in warning]


@pytest.mark.compiler
def test_baselines_that_fail_are_named_and_no_failure(cell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Path:
        raise RuntimeError("Traceback\nInternalError: Check failed: no such thing\n")

    def find_nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("tvmbuild.benchmarking.baselines.compile_untuned", fail)
    monkeypatch.setattr("tvmbuild.benchmarking.baselines.version", find_nothing)
    options = bench_step(cell).options
    step = bench_step(
        cell, replace(options, benchmark=BenchmarkOptions(repeat=5, baselines=("tvm-untuned", "openvino")))
    )
    benchmark.run(step)
    result = read_published(step)
    assert result.rivals == ()
    assert [each.reason for each in result.absent] == [
        "TVM cannot compile the model without records: InternalError: Check failed: no such thing",
        "OpenVINO is not installed; `pip install 'tvmbuild[openvino]'` brings it",
    ]


@pytest.mark.compiler
def test_a_package_for_more_cores_is_tried_with_those_that_there_are(cell: Path, tmp_path: Path) -> None:
    package = read_package(cell / "net-here.tar")
    target = replace(package.info.target, attributes=FrozenMap({"mcpu": "x86-64", "num-cores": available_cores() + 2}))
    write_package(cell / "wide.tar", replace(package, info=replace(package.info, target=target)))
    assert make_package_trial(cell / "wide.tar", (), tmp_path).threads == available_cores()
    assert make_package_trial(cell / "wide.tar", (), tmp_path, threads=1).threads == 1


@pytest.mark.compiler
def test_a_baseline_that_cannot_load_is_named_and_no_failure(cell: Path) -> None:
    (cell / "model.onnx").write_bytes(b"no model")
    step = bench_step(cell)
    benchmark.run(step)
    result = read_published(step)
    assert result.rivals == ()
    assert [each.name for each in result.absent] == ["onnxruntime"]
    assert "the process that ran model.onnx failed with exit code 1" in result.absent[0].reason


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
    target = replace(package.info.target, attributes=FrozenMap({"mtriple": "riscv64-linux-gnu"}))
    write_package(cell / "net-here.tar", replace(package, info=replace(package.info, target=target)))
    assert "the package is built for riscv64 (here); this machine is " in refused(bench_step(cell)).message


@pytest.mark.compiler
def test_a_package_of_a_missing_backend_is_refused(cell: Path) -> None:
    package = read_package(cell / "net-here.tar")
    target = replace(package.info.target, kind="opencl")
    write_package(cell / "net-here.tar", replace(package, info=replace(package.info, target=target)))
    assert "the package needs TVM's opencl runtime, which is not there" in refused(bench_step(cell)).message


def test_a_target_without_a_device_is_not_timed(tmp_path: Path) -> None:
    device = NoDevice()
    options = BenchmarkStep("here", "llvm", device, 2, Tolerance(), BenchmarkOptions())
    assert "packages do not run on a device of kind none" in refused(bench_step(tmp_path, options)).message
