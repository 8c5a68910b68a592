"""Inputs and outputs that stay on a package's device, for every kind of device."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from device_kinds import KINDS, attributes_of
from foreign_tensor import ForeignTensor
from onnx_graphs import node
from small_package import ANY_X86, build_package
from vulkan_devices import HOST

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.runtime.tensors import place, read_array

pytestmark = pytest.mark.compiler
SHAPE = (4, 8)
WEIGHTS = np.random.default_rng(0).uniform(-1, 1, (8, 8)).astype(np.float32)
CUDA, OPENCL, VULKAN = 2, 4, 7
"""The numbers of DLPack."""


@pytest.fixture
def package(kind: str, tmp_path: Path) -> Path:
    """A package that computes `product` of `x`, and returns `x` itself in another shape, and a constant."""
    make = onnx.helper
    given = {"w": WEIGHTS, "flat": np.array([32]), "ten": np.full(3, 10, np.float32)}
    graph = make.make_graph(
        [
            node("MatMul", "x", "w", out="product"),
            node("Reshape", "x", "flat", out="same"),
            node("Identity", "ten", out="constant"),
        ],
        "devices",
        [make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [
            make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
            for name, shape in (("product", SHAPE), ("same", (32,)), ("constant", (3,)))
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in given.items()],
    )
    path = tmp_path / "devices.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), path)
    return build_package(path, tmp_path, attributes_of(kind), kind, FrozenMap() if kind == "llvm" else HOST)


def random_input(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, SHAPE).astype(np.float32)


def expect(outputs: dict[str, Any], x: np.ndarray) -> None:
    np.testing.assert_allclose(outputs["product"], x @ WEIGHTS, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(outputs["same"], x.reshape(32), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(outputs["constant"], [10, 10, 10])


class Shared:
    """A tensor of another library: not tvm_ffi's, but with DLPack."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **_options: Any) -> object:
        return self._tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._tensor.__dlpack_device__()
        return device


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_of_one_session_are_inputs_of_another(package: Path) -> None:
    x = random_input(0)
    with Session(package) as first, Session(package) as second:
        between = first.run_on_device({"x": x})
        assert list(between) == ["product", "same", "constant"]
        product = between["product"]
        for given in (product, Shared(product)):
            assert place("x", read_array("x", given), second.device, {}).data_ptr() == product.data_ptr()
            expect(second.run({"x": given}), x @ WEIGHTS)
        last = second.run_on_device({"x": Shared(product)})
        expect({name: second.to_host(value) for name, value in last.items()}, x @ WEIGHTS)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_stay_as_they_are(package: Path) -> None:
    x, other = random_input(1), random_input(2)
    session, later = Session(package), Session(package)
    kept = session.run_on_device({"x": x})
    of_a_tensor = session.run_on_device({"x": kept["product"]})
    for _ in range(3):
        session.run_on_device({"x": other})
        expect(session.run({"x": other}), other)
    session.close()
    del session
    gc.collect()
    later.run({"x": other})
    expect({name: later.to_host(value) for name, value in kept.items()}, x)
    expect({name: later.to_host(value) for name, value in of_a_tensor.items()}, x @ WEIGHTS)
    assert of_a_tensor["same"].data_ptr() != kept["product"].data_ptr()


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_is_brought_to_the_device_once(package: Path) -> None:
    x = random_input(3)
    with Session(package) as session:
        there = session.to_device(x[:, ::-1])
        assert session.to_device(there).data_ptr() == there.data_ptr()
        assert there.device.dlpack_device_type() == session.device.dlpack_device_type()
        for _ in range(2):
            expect(session.run({"x": there}), x[:, ::-1])
        np.testing.assert_array_equal(session.to_host(there), x[:, ::-1])
        with pytest.raises(TvmbuildError, match=r"is float32 \[4, 8\], got float32 \[32\]"):
            session.run({"x": session.run_on_device({"x": there})["same"]})


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_of_another_device_is_named(kind: str, package: Path) -> None:
    here = {"llvm": "cpu:0"}.get(kind, f"{kind}:0")
    others = {f"{name}:1": ForeignTensor(SHAPE, number, 1) for name, number in (("cuda", CUDA), ("vulkan", VULKAN))}
    others["opencl:0"] = ForeignTensor(SHAPE, OPENCL, 0)
    with Session(package) as session:
        for name, tensor in others.items():
            with pytest.raises(TvmbuildError) as caught:
                session.run_on_device({"x": tensor})
            assert caught.value.message == f"the input x is on {name}; the package runs on {here}"
            assert caught.value.hint == "move it there"


@pytest.mark.vulkan
@pytest.mark.parametrize("kind", ["vulkan"])
def test_a_devices_tensor_is_no_input_of_a_package_for_cpus(package: Path, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    with Session(package) as session, Session(build_package(digits, tmp_path / "cpu", ANY_X86)) as cpu:
        tensor = session.to_device(np.zeros((1, 1, 28, 28), np.float32))
        with pytest.raises(TvmbuildError, match="the input Input3 is on vulkan:0; the package runs on cpu:0"):
            cpu.run({"Input3": tensor})
