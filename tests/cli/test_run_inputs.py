"""The options `tvmbuild run --input --print-top --device`."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from small_package import change_package

from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.cli import main

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("own_folder")]
SHAPE = (1, 1, 28, 28)
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.fixture
def pictured(package: Path, tmp_path: Path) -> Path:
    return change_package(package, tmp_path / "p.tar", preprocess=Preprocess(color="gray"), labels=DIGITS)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["run", *map(str, arguments)]) == 1
    return capsys.readouterr().err


def test_a_picture_becomes_the_top_classes(pictured: Path, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = np.zeros((28, 28), np.uint8)
    drawn[4:24, 13:16] = 255  # a one
    Image.fromarray(drawn).save("one.png")
    assert main(["run", str(pictured), "--input", "Input3=one.png", "--print-top", "2", "--output", "o.npz"]) == 0
    value = drawn.astype(np.float32).reshape(SHAPE) / np.float32(255)
    (want,) = onnxruntime.InferenceSession(str(digits), providers=["CPUExecutionProvider"]).run(None, {"Input3": value})
    np.testing.assert_allclose(np.load("o.npz")["Plus214_Output_0"], want, rtol=1e-3, atol=1e-2)
    lines = capsys.readouterr().out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["class", "probability"])
    first, second = (line.split() for line in lines[start + 1 : start + 3])
    exp = np.exp(want[0].astype(np.float64) - want.max())
    order = np.argsort(-want[0])
    assert first[::2] == [str(order[0]), DIGITS[order[0]]]
    assert second[::2] == [str(order[1]), DIGITS[order[1]]]
    assert float(first[1]) == pytest.approx(exp.max() / exp.sum(), abs=1e-4)
    assert len(lines) == start + 3


def test_an_array_stands_for_one_input_and_the_others_are_filled(package: Path) -> None:
    value = np.random.default_rng(2).uniform(0, 1, SHAPE).astype(np.float32)
    np.save("x.npy", value)
    np.savez("in.npz", Input3=np.zeros(SHAPE, np.float32))
    np.savez("x.npz", Input3=value)
    assert main(["run", str(package), "--inputs", "x.npz", "--output", "want.npz"]) == 0
    for more in ([], ["--fill", "zeros"], ["--inputs", "in.npz"]):
        assert main(["run", str(package), "--input", "Input3=x.npy", "--output", "got.npz", *more]) == 0
        assert np.array_equal(np.load("got.npz")["Plus214_Output_0"], np.load("want.npz")["Plus214_Output_0"])


def test_mistakes_are_named(package: Path, pictured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("flat.npy", np.zeros(784, np.float32))
    Path("text.npy").write_text("text")
    Image.fromarray(np.zeros((9, 9), np.uint8)).save("p.png")
    error = error_of(capsys, package, "--input", "Input3=flat.npy")
    assert "the input Input3 of net is float32 [1, 1, 28, 28], got float32 [784]" in error
    error = error_of(capsys, package, "--input", "input3=flat.npy")
    assert "net has no input input3; its inputs are Input3" in error
    assert "Did you mean Input3?" in error
    assert "text.npy cannot be read as .npy: " in error_of(capsys, package, "--input", "Input3=text.npy")
    assert "no.npy cannot be read as .npy: No such file" in error_of(capsys, package, "--input", "Input3=no.npy")
    assert "a.txt is not an input: expected a name that ends in .npy" in error_of(
        capsys, package, "--input", "Input3=a.txt"
    )
    assert "given twice" in error_of(capsys, pictured, "--input", "Input3=p.png", "--input", "Input3=p.png")
    error = error_of(capsys, package, "--input", "Input3=p.png")
    assert "net does not say how a picture becomes its input" in error
    assert "preprocess" in error
    with pytest.raises(SystemExit) as ended:
        main(["run", str(package), "--input", "p.png"])
    assert ended.value.code == 2
    assert "p.png is not NAME=FILE" in capsys.readouterr().err


def test_outputs_that_are_no_ranking_are_refused(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tvmbuild.base.console import make_console
    from tvmbuild.cli.run.output import print_ranking
    from tvmbuild.errors import TvmbuildError
    from tvmbuild.package.archive import read_metadata

    with pytest.raises(TvmbuildError, match=r"--print-top: no output of net has one score for each class: y \[2, 5\]"):
        print_ranking(make_console(), read_metadata(package), {"y": np.zeros((2, 5))}, 1)
    assert main(["run", str(package), "--print-top", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "-"  # no labels


def test_devices_that_are_not_there(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(package), "--device", "local"]) == 0
    error = error_of(capsys, package, "--device", "locl")
    assert "--device locl: no such device" in error
    assert "Did you mean local? There is local, rpc:HOST:PORT/KEY, qemu:ARCHITECTURE, ssh:USER@HOST" in error
    for wrong in ("rpc", "rpc:host/pi4", "rpc:host:9190", "rpc::9190/pi4", "qemu:arm64", "ssh:", "local:0"):
        error = error_of(capsys, package, "--device", wrong)
        assert f"--device {wrong} is not {wrong.split(':')[0]}" in error
    error = error_of(capsys, package, "--device", "rpc:127.0.0.1:1/pi4")
    assert "no RPC tracker answers at 127.0.0.1:1" in error


def test_what_cannot_be_measured_is_not_tried(package: Path) -> None:
    from tvmbuild.cli.run.command import add_arguments, check_wishes
    from tvmbuild.devices.device import Device
    from tvmbuild.devices.model_worker import start_worker
    from tvmbuild.devices.qemu.device import EmulatedMachine
    from tvmbuild.errors import TvmbuildError

    device = Device("the emulated board aarch64", start_worker, lambda _: EmulatedMachine("aarch64"), emulated=True)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    check_wishes(device, parser.parse_args([str(package)]))
    for wish in (["--print-time"], ["--profile"], ["--profile-json", "p.json"]):
        with pytest.raises(TvmbuildError, match="the emulated board aarch64 gives no meaningful times"):
            check_wishes(device, parser.parse_args([str(package), *wish]))
