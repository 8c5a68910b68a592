from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tvm
import tvm.script
from tvm import relax, te

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import Coverage
from tvmbuild.compiler.operators import count_bytes, count_flops, describe_operators
from tvmbuild.compiler.tasks import normalised, task_key
from tvmbuild.package.operator_info import OperatorInfo

pytestmark = pytest.mark.compiler


HALVE = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((1,), "int32"), y: T.Buffer((1,), "int32")):
    y[0] = x[0]
    while y[0] > 1:
        y[0] = y[0] // 2
"""


def test_a_matrix_product_with_a_bias() -> None:
    a, b, c = te.placeholder((8, 16)), te.placeholder((16, 32)), te.placeholder((32,))
    k = te.reduce_axis((0, 16))
    product = te.compute((8, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k))
    result = te.compute((8, 32), lambda i, j: product[i, j] + c[j])
    function = te.create_prim_func([a, b, c, result])
    assert count_flops(function) == 2 * 8 * 16 * 32 + 8 * 32
    assert count_bytes(function) == 4 * (8 * 16 + 16 * 32 + 32 + 8 * 32)


def test_a_padded_convolution_reads_its_input_once() -> None:
    x, w = te.placeholder((1, 9, 9, 4)), te.placeholder((3, 3, 4, 8))
    padded = tvm.topi.nn.pad(x, [0, 1, 1, 0])
    y, i, c = (te.reduce_axis((0, extent)) for extent in (3, 3, 4))
    result = te.compute(
        (1, 9, 9, 8), lambda n, h, v, o: te.sum(padded[n, h + y, v + i, c] * w[y, i, c, o], axis=[y, i, c])
    )
    function = te.create_prim_func([x, w, result])
    assert count_flops(function) == 2 * 9 * 9 * 8 * 3 * 3 * 4
    assert count_bytes(function) == 4 * (9 * 9 * 4 + 3 * 3 * 4 * 8 + 9 * 9 * 8)


def test_a_slice_and_a_gather_touch_what_they_return() -> None:
    table = te.placeholder((1000, 8), "float16")
    part = te.compute((10, 8), lambda i, j: table[i + 500, j])
    assert count_bytes(te.create_prim_func([table, part])) == 2 * 2 * 10 * 8
    index = te.placeholder((5,), "int64")
    taken = te.compute((5, 8), lambda i, j: table[index[i], j])
    function = te.create_prim_func([table, index, taken])
    assert count_bytes(function) in {2 * 2 * 5 * 8 + 8 * 5, 2 * (1000 * 8 + 5 * 8) + 8 * 5}
    assert count_flops(function) == 0


def test_an_elementwise_operator_in_bool_and_int8() -> None:
    x = te.placeholder((6, 7), "int8")
    function = te.create_prim_func([x, te.compute((6, 7), lambda i, j: x[i, j] > tvm.tirx.const(0, "int8"))])
    assert count_bytes(function) == 2 * 6 * 7


def test_what_depends_on_the_data_or_has_no_shape_is_not_counted() -> None:
    halve = tvm.script.from_source(HALVE, {"T": tvm.script.tirx})
    assert count_flops(halve) is None
    assert count_bytes(halve) == 8
    n = te.var("n")
    x = te.placeholder((n,))
    function = te.create_prim_func([x, te.compute((n,), lambda i: x[i] + 1.0)])
    assert (count_flops(function), count_bytes(function)) == (None, None)


@pytest.mark.parametrize("make_call", [tvm.tirx.call_packed, partial(tvm.tirx.call_extern, "int32")])
def test_what_a_foreign_function_does_is_not_counted(make_call: Callable[..., Any]) -> None:
    x = te.placeholder((6,))
    called = te.extern([(6,)], [x], lambda ins, outs: tvm.tirx.Evaluate(make_call("sort", ins[0].data, outs[0].data)))
    assert count_flops(te.create_prim_func([x, called])) is None


def make_module(calls: dict[str, tvm.tirx.PrimFunc]) -> tvm.ir.IRModule:
    """Make a main that calls each function on the result of the one before it."""
    builder = relax.BlockBuilder()
    value = relax.Var("x", relax.TensorType((6,), "float32"))
    with builder.function("main", [value]):
        with builder.dataflow():
            for name, function in calls.items():
                variable = builder.add_func(function, name)
                value = builder.emit(relax.call_tir(variable, (value,), relax.TensorType((6,), "float32")))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def make_adder(additions: int) -> tvm.tirx.PrimFunc:
    x = te.placeholder((6,), name="x")
    return te.create_prim_func([x, te.compute((6,), lambda i: sum([x[i]] * additions, x[i]))])


def test_operators_keep_their_tasks_when_weights_are_repacked() -> None:
    one, two, three = (make_adder(number) for number in (1, 2, 3))
    before = make_module({"add": one, "fused_add1_add2": two, "add_prepacked": three})
    after = make_module(
        {"add": one, "fused_add1_add2_prepacked1": two, "add_prepacked": three, "strange": make_adder(4)}
    )
    keys = {name: task_key(normalised(before[name])) for name in ("add", "fused_add1_add2", "add_prepacked")}
    coverage = Coverage(FrozenMap({keys["fused_add1_add2"]: "add_add"}), FrozenMap({keys["add"]: "add"}))
    assert describe_operators(before, after, coverage) == (
        OperatorInfo("add", "add", keys["add"], 6, 48, covered=False),
        OperatorInfo("add_prepacked", "add_prepacked", keys["add_prepacked"], 18, 48, covered=False),
        OperatorInfo("fused_add1_add2_prepacked1", "add_add", keys["fused_add1_add2"], 12, 48, covered=True),
    )


def test_a_function_that_says_what_it_computes() -> None:
    x = te.placeholder((8,))
    function = te.create_prim_func([x, te.compute((8,), lambda i: x[i] * 2)])
    assert count_flops(function) == 8
    assert count_flops(function.with_attr("estimated_flops", 1000)) == 1000
