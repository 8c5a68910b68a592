"""Attention on an emulated ARM CPU: its vectors of four give ONNX Runtime's outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from drawn_attention import draw_attention
from emulated_board import the_board

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.package import build_package
from tvmbuild.devices.model_worker import Load
from tvmbuild.devices.qemu.device import start_emulated
from tvmbuild.package.archive import read_metadata, write_package
from tvmbuild.package.inputs import write_arrays
from tvmbuild.package.metadata import PackageTarget

pytestmark = [pytest.mark.compiler, pytest.mark.emulator, pytest.mark.nightly]


def test_numbers(tmp_path: Path) -> None:
    drawn = draw_attention(110)
    model = drawn.model.SerializeToString()
    (want,) = onnxruntime.InferenceSession(model).run(None, drawn.inputs)
    target = FrozenMap[str, AttributeValue]({"mcpu": "cortex-a76", "mtriple": "aarch64-linux-gnu", "num-cores": 2})
    package, reference = tmp_path / "package.tar", tmp_path / "reference.npz"
    (tmp_path / "model.onnx").write_bytes(model)
    write_package(package, build_package(tmp_path / "model.onnx", PackageTarget("a76", "llvm", target, glibc="2.28")))
    assert "attention" in {each.name for each in read_metadata(package).operators or ()}
    write_arrays(reference, {f"input:{name}": values for name, values in drawn.inputs.items()})
    with start_emulated(the_board(), Load("tvm", package, reference, 2)) as worker:
        np.testing.assert_allclose(worker.outputs()[drawn.outputs[0]], want, rtol=1e-4, atol=2e-5)
