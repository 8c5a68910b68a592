from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from small_package import build_package

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def model(digits: Path) -> Path:
    return digits


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    return build_package(model, tmp_path_factory.mktemp("session"))


def test_a_session_computes_what_onnx_runtime_does(package: Path, model: Path) -> None:
    session = Session(package)
    assert [(t.name, t.shape, t.dtype) for t in session.inputs] == [("Input3", (1, 1, 28, 28), "float32")]
    baseline = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    for seed in range(3):
        value = np.random.RandomState(seed).uniform(0, 255, (1, 1, 28, 28)).astype(np.float32)
        got = session.run({"Input3": value})
        assert list(got) == ["Plus214_Output_0"]
        (want,) = baseline.run(None, {"Input3": value})
        np.testing.assert_allclose(got["Plus214_Output_0"], want, rtol=1e-3, atol=1e-2)


def test_outputs_stay_when_the_session_runs_again(package: Path) -> None:
    session = Session(package)
    first = session.run({"Input3": np.ones((1, 1, 28, 28), np.float32)})["Plus214_Output_0"]
    kept = first.copy()
    session.run({"Input3": np.zeros((1, 1, 28, 28), np.float32)})
    np.testing.assert_array_equal(first, kept)


def test_inputs_need_not_be_contiguous(package: Path) -> None:
    session = Session(package)
    value = np.random.RandomState(0).uniform(0, 1, (28, 28, 1, 1)).astype(np.float32).transpose(2, 3, 1, 0)
    assert not value.flags["C_CONTIGUOUS"]
    got = session.run({"Input3": value})["Plus214_Output_0"]
    want = session.run({"Input3": value.copy()})["Plus214_Output_0"]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "net needs the input Input3"),
        ({"x": np.zeros(1)}, "net has no input x; its inputs are Input3"),
        ({"Input3": np.zeros((1, 1, 28, 28))}, r"is float32 \[1, 1, 28, 28\], got float64"),
        ({"Input3": np.zeros((1, 28, 28, 1), np.float32)}, r"got float32 \[1, 28, 28, 1\]"),
    ],
)
def test_inputs_that_do_not_fit(package: Path, inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(TvmbuildError, match=message):
        Session(package).run(inputs)


def test_the_runtime_library_alone_is_enough(package: Path) -> None:
    program = (
        "import sys, numpy as np\nfrom tvmbuild.package.runtime.session import Session\n"
        "print(Session(sys.argv[1]).run({'Input3': np.ones((1, 1, 28, 28), np.float32)})['Plus214_Output_0'].shape)\n"
        "assert 'libtvm_compiler' not in open('/proc/self/maps').read()\n"
    )
    environment = dict(os.environ, TVM_USE_RUNTIME_LIB="1")
    done = subprocess.run(
        [sys.executable, "-c", program, str(package)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(1, 10)\n"
