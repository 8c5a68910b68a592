"""Operators that stay in full float32 where others may use TF32, for each kind of product, in each layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from onnx import helper
from tvm import tirx

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.scheduling import import_for
from tvmbuild.compiler.ir.prim_funcs import allows_tf32, list_blocks
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.package.metadata import PackageTarget

SaveModel = Callable[..., Path]
LIMITS: Attributes = FrozenMap(
    {"arch": "sm_80", "max_shared_memory_per_block": 48 << 10, "max_threads_per_block": 1024}
)
CARD = PackageTarget("card", "cuda", LIMITS, FrozenMap({"kind": "llvm"}), precision="tf32")


@dataclass(frozen=True)
class Net:
    """A network of two products: ``a`` computes p, which ``b`` reads. ``b`` has twice as many outputs if it can."""

    nodes: Sequence[onnx.NodeProto]
    weights: dict[str, np.ndarray[Any, Any]]
    shape: tuple[int, ...]


def _pair(operator: str, weight: tuple[int, ...], shape: tuple[int, ...], **attributes: Any) -> Net:
    outputs = 0 if operator == "Conv" or "transB" in attributes else 1  # the axis of the weight
    wide = tuple(2 * size if axis == outputs else size for axis, size in enumerate(weight))
    nodes = [
        helper.make_node(operator, ["x", "v"], ["p"], "a", **attributes),
        helper.make_node("Relu", ["p"], ["r"], "between"),
        helper.make_node(operator, ["r", "w"], ["y"], "b", **attributes),
    ]
    random = np.random.RandomState(0)
    sizes = {"v": weight, "w": wide}
    return Net(nodes, {name: random.rand(*size).astype(np.float32) for name, size in sizes.items()}, shape)


def _product_of_activations() -> Net:
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["p"], "a"),
        helper.make_node("MatMul", ["p", "p"], ["y"], "b"),
    ]
    return Net(nodes, {}, (2, 32, 32))


def _einsum() -> Net:
    nodes = [
        helper.make_node("Einsum", ["x", "v"], ["p"], "a", equation="bij,jk->bik"),
        helper.make_node("Einsum", ["p", "w"], ["y"], "b", equation="bij,jk->bik"),
    ]
    return Net(nodes, {name: np.ones((32, size), np.float32) for name, size in (("v", 32), ("w", 64))}, (2, 32, 32))


NETS = {
    "Conv": _pair("Conv", (32, 32, 3, 3), (1, 32, 9, 9), pads=[1] * 4),
    "Conv in groups": _pair("Conv", (32, 8, 3, 3), (1, 32, 9, 9), pads=[1] * 4, group=4),
    "Conv with taps in the padding": _pair("Conv", (32, 32, 3, 3), (1, 32, 2, 2), pads=[3] * 4, dilations=[3, 3]),
    "Conv of one dimension": _pair("Conv", (32, 32, 3), (1, 32, 9), pads=[1] * 2),
    "Conv of three dimensions": _pair("Conv", (32, 32, 3, 3, 3), (1, 32, 5, 5, 5), pads=[1] * 6),
    "ConvTranspose": _pair("ConvTranspose", (32, 32, 3, 3), (1, 32, 5, 5), strides=[2, 2]),
    "ConvTranspose without overlap": _pair("ConvTranspose", (32, 32, 2, 2), (1, 32, 5, 5), strides=[2, 2]),
    "ConvTranspose of one dimension": _pair("ConvTranspose", (32, 32, 3), (1, 32, 5), strides=[2]),
    "MatMul": _pair("MatMul", (32, 32), (2, 32, 32)),
    "MatMul of activations": _product_of_activations(),
    "Gemm": _pair("Gemm", (32, 32), (32, 32), transB=1),
    "Einsum": _einsum(),
}

CASES = [(name, layout) for name in NETS for layout in (("NCHW", "NHWC") if name.startswith("Conv") else ("NCHW",))]


def _lower(path: Path, layout: str, target: PackageTarget) -> tvm.ir.IRModule:
    return lower(import_for(path, target), tvm_target("cuda", target.attributes, target.host), layout).mod


def _list_sums(mod: tvm.ir.IRModule) -> dict[str, tirx.PrimFunc]:
    functions = {key.name_hint: each for key, each in mod.functions.items() if isinstance(each, tirx.PrimFunc)}
    return {
        name: each for name, each in functions.items() if any(block.init is not None for block in list_blocks(each))
    }


def _count_outputs(function: tirx.PrimFunc) -> int:
    sums = (block for block in list_blocks(function) if block.init is not None)
    return sum(math.prod(int(size) for size in block.writes[0].source.shape) for block in sums)


def _with_keep(*names: str) -> PackageTarget:
    return PackageTarget("card", "cuda", CARD.attributes, CARD.host, precision="tf32", keep=names)


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_a_kept_product_is_exact_and_no_other(save_model: SaveModel, name: str, layout: str) -> None:
    net = NETS[name]
    path = save_model(net.nodes, net.weights, net.shape)
    all_rounded = _list_sums(_lower(path, layout, CARD))
    assert all_rounded
    assert all(map(allows_tf32, all_rounded.values()))
    elements = []
    for kept in ("a", "b"):
        sums = _list_sums(_lower(path, layout, _with_keep(kept)))
        exact = [each for each in sums.values() if not allows_tf32(each)]
        assert 0 < len(exact) < len(sums)
        elements.append(sum(_count_outputs(each) for each in exact))
    assert elements[0] < elements[1] or not net.weights


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_a_network_whose_products_are_kept_is_that_of_float32(save_model: SaveModel, name: str, layout: str) -> None:
    """It has the same functions, and so the same Tasks."""
    net = NETS[name]
    path = save_model(net.nodes, net.weights, net.shape)
    kept = _lower(path, layout, _with_keep("a", "b"))
    wide = _lower(path, layout, PackageTarget("card", "cuda", CARD.attributes, CARD.host))
    assert {tvm_ffi.structural_hash(each, map_free_vars=True) for each in _list_sums(kept).values()} == {
        tvm_ffi.structural_hash(each, map_free_vars=True) for each in _list_sums(wide).values()
    }


def test_projections_of_both_kinds_are_not_combined(save_model: SaveModel) -> None:
    """Attention's query, key and value are one product only where all of them are rounded, or none is."""
    parts = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
    nodes = []
    for part, order in parts.items():
        nodes += [
            helper.make_node("MatMul", ["x", f"w{part}"], [f"{part}1"], part),
            helper.make_node("Reshape", [f"{part}1", "heads"], [f"{part}2"]),
            helper.make_node("Transpose", [f"{part}2"], [f"{part}3"], perm=order),
        ]
    nodes += [
        helper.make_node("MatMul", ["q3", "k3"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["softmax"], axis=-1),
        helper.make_node("MatMul", ["softmax", "v3"], ["y"]),
    ]
    random = np.random.RandomState(0)
    weights = {f"w{part}": random.rand(64, 64).astype(np.float32) for part in parts}
    path = save_model(nodes, {**weights, "heads": np.array([1, 16, 2, 32])}, (1, 16, 64))
    count = {}
    for kept in ((), ("v",), ("q", "k", "v")):
        sums = [(name, each) for name, each in _list_sums(_lower(path, "NCHW", _with_keep(*kept))).items()]
        products = [allows_tf32(each) for name, each in sums if "matmul" in name]
        count[kept] = (products.count(True), products.count(False))
    assert count == {(): (1, 0), ("v",): (1, 1), ("q", "k", "v"): (0, 1)}


def test_tensor_cores_decide_the_layout_by_the_products_that_use_them(save_model: SaveModel) -> None:
    net = _pair("Conv", (32, 32, 1, 1), (1, 32, 9, 9))  # without windows, which decide in float32 too
    path = save_model(net.nodes, net.weights, net.shape)
    target = tvm_target("cuda", CARD.attributes, CARD.host)
    layouts = {keep: lower(import_for(path, _with_keep(*keep)), target).layout for keep in ((), ("a",), ("a", "b"))}
    assert layouts == {(): "NHWC", ("a",): "NHWC", ("a", "b"): "NCHW"}
