"""The model that is linked into a program gives ONNX Runtime's outputs, without any file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from cpp_programs import SOURCES, read_flags

pytestmark = [pytest.mark.nightly, pytest.mark.compiler]
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "static_library"


@pytest.mark.nights(2)
def test_a_linked_model_needs_no_file(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = digits, tmp_path / "out"
    subprocess.run([sys.executable, "-W", "ignore", FOLDER / "build.py", model, "x86-64", out], check=True)
    compile_flags, link_flags = read_flags(capsys)
    command = [sys.executable, "-m", "ziglang", "c++", "-O1", *compile_flags, f"-I{out}", str(FOLDER / "main.cpp")]
    command += [str(SOURCES / "tvmbuild.cpp"), *map(str, sorted(out.glob("*.o"))), "-o", str(tmp_path / "program")]
    subprocess.run([*command, *link_flags], check=True)
    for path in out.iterdir():
        path.unlink()
    value = np.random.default_rng(0).uniform(0, 1, (1, 1, 28, 28)).astype(np.float32)
    numbers = " ".join(repr(float(number)) for number in value.reshape(-1))
    trace = {"TMPDIR": str(tmp_path / "absent"), "PATH": ""}  # writing a library would fail
    done = subprocess.run([tmp_path / "program"], input=numbers, env=trace, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name, *got = done.stdout.split()
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (want,) = session.run([name], {"Input3": value})
    np.testing.assert_allclose(np.array(got, np.float32), want.reshape(-1), rtol=1e-3, atol=1e-3)
    done = subprocess.run([tmp_path / "program"], input="1 2", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: too few numbers for Input3\n")
