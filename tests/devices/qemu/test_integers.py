"""Quantised networks on emulated ARM CPUs: their instructions give ONNX Runtime's numbers to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated_board import the_board
from quantised_graphs import Network, run_optimized

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.package import build_package
from tvmbuild.devices.model_worker import Load
from tvmbuild.devices.qemu.device import start_emulated
from tvmbuild.package.archive import write_package
from tvmbuild.package.inputs import write_arrays
from tvmbuild.package.metadata import PackageTarget

pytestmark = [pytest.mark.compiler, pytest.mark.emulator]
SHAPE = (1, 3, 17, 15)


class Chain:
    """Convolutions one after another; all of their results are outputs of the network."""

    def __init__(self) -> None:
        self.net = Network(np.random.RandomState(0))
        self._data, self._scale, self._channels = self.net.round("x", 0.02, 131), 0.02, SHAPE[1]
        self._results: list[str] = []

    def convolve(self, outputs: int, size: int, *, group: int = 1, extreme: bool = False, stride: int = 1) -> None:
        """Append a convolution whose integers are spread over all of uint8; if ``extreme``, saturated."""
        inputs, pad = self._channels // group, size // 2
        weights, scales = self.net.weigh((outputs, inputs, size, size), extreme=extreme)
        bias = self.net.offset(outputs, scales, self._scale)
        given = {"pads": [pad] * 4, "strides": [stride] * 2, "group": group}
        self._scale *= 0.05 if extreme else 0.25 * (inputs * size * size) ** 0.5
        made = self.net.add("Conv", [self._data, weights, bias], **given)
        self._data, self._channels = self.net.round(made, self._scale, 120), outputs
        self._results.append(self.net.add("Flatten", [self._data]))

    def squash(self) -> None:
        """Append a sigmoid: a table of bytes."""
        self._data, self._scale = self.net.round(self.net.add("Sigmoid", [self._data]), 1 / 255, 0), 1 / 255
        self._results.append(self.net.add("Flatten", [self._data]))

    def multiply(self, outputs: int, features: int) -> None:
        """Append a product with a matrix."""
        weights, scales = self.net.weigh((features, outputs), axis=1)
        bias = self.net.offset(outputs, scales, self._scale)
        made = self.net.add("Gemm", [self._results[-1], weights, bias])
        self._results.append(self.net.round(made, self._scale * features**0.5, 120))

    def attend(self) -> None:
        """Append the product of the last result's pixels with each other, that is, of two activations."""
        rows = self.net.add("Reshape", [self._data, self.net.keep(np.array([0, self._channels, -1], np.int64))])
        product = self.net.add("MatMul", [rows, self.net.add("Transpose", [rows], perm=[0, 2, 1])])
        self._results.append(self.net.add("Flatten", [self.net.round(product, self._scale**2 * 3000, 17)]))

    def finish(self) -> bytes:
        """Return the model."""
        return self.net.finish(self.net.add("Concat", self._results, axis=1), SHAPE)


@pytest.fixture(scope="module")
def model() -> bytes:
    chain = Chain()
    chain.convolve(24, 3, stride=2)  # of a picture: its channels are padded
    chain.convolve(24, 3, group=24)
    chain.convolve(58, 1)  # two groups at once, outputs that do not fill a vector
    chain.squash()
    chain.convolve(16, 3)  # one group at once
    chain.convolve(64, 1, extreme=True)  # four, and a result that has only bounds
    chain.convolve(32, 3, extreme=True)
    chain.multiply(10, 32 * 9 * 8)
    chain.convolve(24, 3, group=4)  # of eight channels
    chain.attend()
    chain.convolve(18, 1, group=2)
    return chain.finish()


@pytest.mark.parametrize(
    "cpu",
    [
        "cortex-a76",
        pytest.param("neoverse-n2", marks=pytest.mark.nightly),  # it has all instructions; qemu 7.2 does not know it
        pytest.param("cortex-a72", marks=pytest.mark.nightly),
    ],
)
def test_numbers(model: bytes, cpu: str, tmp_path: Path) -> None:
    x = np.random.RandomState(1).uniform(-3, 3, SHAPE).astype(np.float32)
    want = run_optimized(model, {"x": x})["y"]
    assert len(np.unique(want)) > 200
    target = FrozenMap[str, AttributeValue]({"mcpu": cpu, "mtriple": "aarch64-linux-gnu", "num-cores": 2})
    package, reference = tmp_path / "package.tar", tmp_path / "reference.npz"
    (tmp_path / "model.onnx").write_bytes(model)
    write_package(package, build_package(tmp_path / "model.onnx", PackageTarget(cpu, "llvm", target, glibc="2.28")))
    write_arrays(reference, {"input:x": x})
    with start_emulated(the_board(), Load("tvm", package, reference, 2)) as worker:
        np.testing.assert_array_equal(worker.outputs()["y"], want)
