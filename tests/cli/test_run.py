from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from small_package import change_package

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.progress import report_progress
from tvmbuild.cli import main
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.watch import Watch
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.inputs import make_inputs
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget, TensorInfo, default_threads

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("own_folder")]

SHAPE = (1, 1, 28, 28)


def expect_error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["run", *map(str, arguments)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error
    return error


def test_outputs_are_those_of_onnx_runtime(package: Path, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = np.random.default_rng(1).uniform(0, 255, SHAPE).astype(np.float32)
    np.savez("in.npz", Input3=value)
    assert main(["run", str(package), "--inputs", "in.npz", "--output", "out.npz"]) == 0
    (want,) = onnxruntime.InferenceSession(str(digits), providers=["CPUExecutionProvider"]).run(None, {"Input3": value})
    with np.load("out.npz") as arrays:
        assert arrays.files == ["Plus214_Output_0"]
        np.testing.assert_allclose(arrays["Plus214_Output_0"], want, rtol=1e-3, atol=1e-2)
    printed = capsys.readouterr().out
    assert "net for here" in printed
    assert "Plus214_Output_0" in printed
    assert "[1, 10]" in printed
    (line,) = (line for line in printed.splitlines() if line.startswith("Plus214_Output_0"))
    figures = [float(word) for word in line.split()[-3:]]
    np.testing.assert_allclose(figures, [want.min(), want.mean(), want.max()], rtol=1e-3)
    assert "latency" not in printed


def test_made_up_inputs_are_what_the_seed_says(package: Path) -> None:
    made = make_inputs(read_metadata(package).inputs, "random", 7)["Input3"]
    arrays: dict[str, Any] = {"input:Input3": made, "output:other": made}
    np.savez("in.npz", **arrays)
    assert main(["run", str(package), "--seed", "7", "--output", "a.npz"]) == 0
    assert main(["run", str(package), "--inputs", "in.npz", "--output", "b.npz"]) == 0
    assert main(["run", str(package), "--fill", "zeros", "--output", "c.npz"]) == 0
    a, b, c = (np.load(name)["Plus214_Output_0"] for name in ("a.npz", "b.npz", "c.npz"))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_the_latency_is_printed(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(package), "--print-time", "--repeat", "3", "--number", "2", "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    (line,) = (line for line in printed.splitlines() if line.startswith("latency in ms: median "))
    assert line.endswith("(3 samples of 2 calls, 1 thread)")
    figures = [float(word.strip(",")) for word in line.split() if word.strip(",").replace(".", "").isdigit()][:5]
    median, mean, least, most, spread = (round(1000 * each) for each in figures)  # 0.03 less 0.029 is below 0.001
    assert 0 < least <= median <= most
    assert least <= mean <= most
    assert spread <= most - least


def test_a_busy_machine_and_a_held_lock_are_said_beside_the_results(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def wait(device: str, *, exclusive: bool) -> Iterator[None]:
        assert exclusive
        report_progress(f"waiting for the device {device}")
        yield

    monkeypatch.setattr(Watch, "read", lambda _: MachineState("A CPU", 2, others=0.5))
    monkeypatch.setattr("tvmbuild.devices.device.device_lock", wait)
    assert main(["run", str(package), "--print-time", "--repeat", "1", "--threads", "1"]) == 0
    captured = capsys.readouterr()
    assert "::progress" not in captured.out
    assert captured.err.splitlines() == [
        "waiting for the device local",
        "warning: the machine was busy: other programs took 50% of the cores' time during the timing",
    ]


def test_mistakes_in_the_package_are_named(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "absent.tar: no such package" in expect_error(capsys, "absent.tar")
    error = expect_error(capsys, "compile:net@here")
    assert "compile:net@here: no such package" in error
    assert "`tvmbuild compile:net@here` builds it." in error
    assert "`tvmbuild compile absent.onnx` builds it." in expect_error(capsys, "absent.onnx")
    assert "cannot be read: Is a directory" in expect_error(capsys, tmp_path)
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(package.read_bytes()[:-20_000])
    assert "damaged.tar is damaged: " in expect_error(capsys, damaged)
    damaged.write_text("no archive")
    assert "damaged.tar is damaged: no readable archive" in expect_error(capsys, damaged)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"mtriple": "riscv64-linux-gnu", "num-cores": 64}, "the package is built for riscv64 (far)"),
        ({"mattr": ("+amx-fp16",), "mcpu": "x86-64"}, "this CPU has no amx_fp16"),
    ],
)
def test_a_package_for_another_cpu_is_refused(
    package: Path,
    tmp_path: Path,
    attributes: dict[str, AttributeValue],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = change_package(package, tmp_path / "far.tar", target=PackageTarget("far", "llvm", FrozenMap(attributes)))
    assert message in expect_error(capsys, other)


def test_mistakes_in_the_inputs_are_named(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no.npz cannot be read as .npz: No such file" in expect_error(capsys, package, "--inputs", "no.npz")
    np.savez("in.npz", Input3=np.ones((1, 28, 28), np.float32))
    error = expect_error(capsys, package, "--inputs", "in.npz")
    assert "the input Input3 of net is float32 [1, 1, 28, 28], got float32 [1, 28, 28]" in error
    np.savez("in.npz", Image=np.ones(SHAPE, np.float32))
    error = expect_error(capsys, package, "--inputs", "in.npz")
    assert "net has no input Image; its inputs are Input3" in error


def test_more_threads_than_cores_are_refused(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = expect_error(capsys, package, "--threads", available_cores() + 1)
    assert f"{available_cores() + 1} threads were asked for" in error


def test_arguments_that_make_no_sense_are_refused(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["--threads", "0"],
        ["--repeat", "x"],
        ["--inputs", "a.npz", "--fill", "ones"],
        ["--fill", "two"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(["run", str(package), *arguments])
        assert ended.value.code == 2
        assert arguments[0] in capsys.readouterr().err


def test_the_threads_are_the_targets_cores_or_those_that_there_are() -> None:
    def make(target: PackageTarget) -> PackageInfo:
        tensors = (TensorInfo("x", (1,), "float32"),)
        return PackageInfo("net", target, tensors, tensors, "lifted", PackageCoverage(0, 0), "NHWC")

    assert default_threads(make(PackageTarget("a", "llvm", FrozenMap({"num-cores": 3}))), 8) == 3
    assert default_threads(make(PackageTarget("a", "cuda", FrozenMap(), FrozenMap({"num-cores": 5}))), 8) == 5
    assert default_threads(make(PackageTarget("a", "llvm", FrozenMap({"num-cores": 16}))), 8) == 8
    assert default_threads(make(PackageTarget("a", "llvm")), 8) == 1
