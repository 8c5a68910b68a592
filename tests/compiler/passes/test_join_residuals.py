"""Sums after a product and a reshape are computed in the product's tiles."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.calls import called_functions, display_name
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.passes.join_residuals import join_residuals
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.reference import run_onnx

pytestmark = pytest.mark.compiler
ROWS, WIDTH = 13, 32
RANDOM = np.random.default_rng(0)
CARD = tvm_target(
    "cuda",
    FrozenMap({"arch": "sm_90", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}),
    FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu"}),
)


def make_model(*, shape: tuple[int, ...] = (1, ROWS, WIDTH), blocks: int = 2, swapped: bool = False) -> onnx.ModelProto:
    """Return blocks of a normalisation, a Gemm between reshapes and a residual sum, as simplification leaves them.

    Another normalisation ends the network.
    """
    nodes, constants, before = [], {}, "x"
    flat = (int(np.prod(shape[:-1])), WIDTH)
    for block in range(blocks):
        names = [f"{kind}{block}" for kind in ("norm", "flat", "made", "wide", "sum")]
        weights, bias, ones = f"w{block}", f"b{block}", f"g{block}"
        constants[weights] = RANDOM.uniform(-0.3, 0.3, (WIDTH, WIDTH)).astype(np.float32)
        constants[bias], constants[ones] = (RANDOM.uniform(-1, 1, WIDTH).astype(np.float32) for _ in range(2))
        added = [names[3], before] if swapped else [before, names[3]]
        nodes += [
            helper.make_node("LayerNormalization", [before, ones, bias], [names[0]]),
            helper.make_node("Reshape", [names[0], "flat"], [names[1]]),
            helper.make_node("Gemm", [names[1], weights, bias], [names[2]]),
            helper.make_node("Reshape", [names[2], "wide"], [names[3]]),
            helper.make_node("Add", added, [names[4]]),
        ]
        before = names[4]
    nodes.append(helper.make_node("LayerNormalization", [before, "g0", "b0"], ["y"]))
    constants |= {"flat": np.array(flat, np.int64), "wide": np.array(shape, np.int64)}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def list_calls(model: onnx.ModelProto, target: tvm.target.Target) -> list[str]:
    mod = lower(import_model(model, "net"), target).mod
    return [display_name(variable.name_hint) for variable in called_functions(mod)]


def check(model: onnx.ModelProto) -> None:
    shape = tuple(each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim)
    inputs, target = {"x": RANDOM.uniform(-1, 1, shape).astype(np.float32)}, host_target(threads=2)
    (want,) = run_onnx(model.SerializeToString(), inputs, "net").values()
    (got,) = build_here(lower(import_model(model, "net"), target), target)(inputs).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", [host_target(threads=2), CARD], ids=["CPU", "card"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_residual_sum_is_no_pass_of_its_own(target: tvm.target.Target, *, swapped: bool) -> None:
    calls = list_calls(make_model(swapped=swapped), target)
    assert sum("matmul" in name for name in calls) == 2
    assert all("matmul" in name or "norm" in name for name in calls), calls


@pytest.mark.parametrize("swapped", [False, True])
def test_numbers_stay_what_they_are(*, swapped: bool) -> None:
    check(make_model(swapped=swapped, blocks=3))


def test_pictures_and_rows_that_are_one_axis_are_left() -> None:
    model = make_model(shape=(2, ROWS, WIDTH))
    mod = import_model(model, "net").mod
    tvm.ir.assert_structural_equal(join_residuals(mod), mod)
    check(model)


def test_a_sum_that_spreads_is_left() -> None:
    model = make_model(blocks=1)
    model.graph.initializer.append(numpy_helper.from_array(RANDOM.random((1, 1, WIDTH), np.float32), "row"))
    model.graph.node[-2].input[0] = "row"
    mod = import_model(model, "net").mod
    tvm.ir.assert_structural_equal(join_residuals(mod), mod)
    check(model)


def test_a_network_without_products_stays_as_it_is() -> None:
    model = make_model(blocks=1)
    del model.graph.node[1:]
    model.graph.output[0].name = model.graph.node[0].output[0]
    mod = import_model(model, "net").mod
    assert join_residuals(mod).same_as(mod)
