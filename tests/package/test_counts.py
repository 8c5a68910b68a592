"""Outputs whose length depends on data: Python and C++ cut them to what ONNX Runtime returns."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from counted_chains import chain, feeds
from counted_graphs import expect
from cpp_programs import SUPPORT, build_by_cmake, run_program
from made_once import make_once
from small_package import build_package

from tvmbuild.devices.ssh.relay import BoundPackage
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.counts import count_lengths, cut_outputs, fill_outputs
from tvmbuild.package.metadata import Count, TensorInfo
from tvmbuild.package.runtime.session import Session

OUTPUTS = (
    TensorInfo("rows", (4, 2), "float32", (Count(0, 1),)),
    TensorInfo("square", (3, 3), "float32", (Count(0, 0), Count(1, 0))),
    TensorInfo("whole", (2,), "float32"),
)


def test_outputs_are_cut_and_filled() -> None:
    arrays = [np.ones(each.shape, np.float32) for each in OUTPUTS]
    cut = cut_outputs(OUTPUTS, [*arrays, np.array([2, 0])])
    assert [each.shape for each in cut.values()] == [(0, 2), (2, 2), (2,)]
    assert count_lengths(OUTPUTS) == 2
    filled = fill_outputs(OUTPUTS, cut)
    assert [each.shape for each in filled.values()] == [each.shape for each in OUTPUTS]
    assert filled["square"].sum() == 4


def test_outputs_of_fixed_shapes_are_returned_as_they_are() -> None:
    array = np.ones(2, np.float32)
    assert cut_outputs(OUTPUTS[2:], [array])["whole"] is array


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[onnx.ModelProto, Path]:
    """The network and its package; tests must only read it."""
    model, folder = chain("boxes", ["sorted", "elementwise"]), tmp_path_factory.mktemp("counted")
    onnx.save(model, folder / "net.onnx")
    return model, build_package(folder / "net.onnx", folder)


@pytest.mark.compiler
def test_a_session_returns_the_real_lengths(package: tuple[onnx.ModelProto, Path]) -> None:
    model, path = package
    assert read_metadata(path).outputs[0].counts == (Count(0, 0),)
    with Session(path) as session:
        for feed in feeds(4):
            got, want = session.run(feed), expect(model, feed)
            assert {name: each.shape for name, each in got.items()} == {n: each.shape for n, each in want.items()}
            whole = session.run_on_device(feed)
            for name, value in want.items():
                np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5)
                if value.ndim:
                    assert tuple(whole[name].shape) == (5, 4)
                    assert not session.to_host(whole[name])[len(value) :].any()


@pytest.mark.compiler
@pytest.mark.toolchain
def test_cpp_returns_what_python_returns(package: tuple[onnx.ModelProto, Path], tmp_path: Path) -> None:
    _, path = package
    folder = make_once("C++ devices", lambda empty: build_by_cmake(empty, source=SUPPORT / "cpp_devices"))
    files = [tmp_path / f"{place}.in" for place, _ in enumerate(feeds(4))]
    for file, feed in zip(files, feeds(4), strict=True):
        file.write_bytes(feed["data"].tobytes())
    done = run_program(folder / "build" / "counted", path, *files)
    assert (done.returncode, done.stderr) == (0, "")
    with Session(path) as session:
        wanted = [session.run(feed) for feed in feeds(4)]
    shapes = [list(value.shape) for each in wanted for value in each.values()]
    assert [[int(size) for size in line.split()] for line in done.stdout.splitlines()] == shapes
    for file, want in zip(files, wanted, strict=True):
        assert Path(f"{file}.out").read_bytes() == b"".join(value.tobytes() for value in want.values())


class _Answers:
    """A session with a board's program that has answered everything already."""

    def __init__(self, content: bytes) -> None:
        self.stream = io.BytesIO(content)

    def ask(self, *_: object) -> None:
        assert self.stream.readline() == b"{}\n"

    def receive(self, size: int) -> bytes:
        return self.stream.read(size)


@pytest.mark.compiler
@pytest.mark.toolchain
def test_a_board_returns_what_python_returns(package: tuple[onnx.ModelProto, Path], tmp_path: Path) -> None:
    _, path = package
    folder = make_once("C++ devices", lambda empty: build_by_cmake(empty, source=SUPPORT / "cpp_devices"))
    given = feeds(4)[1]
    asked = b'{"do": "bind"}\n' + given["data"].tobytes() + b'{"do": "outputs"}\n'
    command = [str(folder / "build" / "serve_model"), str(path), "1"]
    done = subprocess.run(command, input=asked, capture_output=True, check=True, timeout=100)
    answers: Any = _Answers(done.stdout.split(b"\n", 2)[2])
    board = BoundPackage(answers, read_metadata(path), SimpleNamespace(alive=None))  # type: ignore[arg-type]
    board.outputs({"path": str(tmp_path / "out.npz")})
    with Session(path) as session, np.load(tmp_path / "out.npz") as got:
        for name, want in session.run(given).items():
            np.testing.assert_array_equal(got[f"output:{name}"], want)
