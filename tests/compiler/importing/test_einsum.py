"""Equations as products give ONNX Runtime's numbers; an equation that is not a product stays."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.expand import expand_operators

SIZES = {"a": 2, "b": 3, "c": 1, "d": 4, "e": 5}
Shapes = list[tuple[int, ...]]


def make_model(equation: str, shapes: Shapes, opset: int = 17) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(shapes)]
    node = helper.make_node("Einsum", [each.name for each in inputs], ["y"], equation=equation)
    graph = helper.make_graph([node], "net", inputs, [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def check(equation: str, shapes: Shapes, opset: int = 17) -> list[str]:
    """Compare with ONNX Runtime; return the operators that replace the equation."""
    random = np.random.default_rng(0)
    data = {f"x{i}": random.uniform(-1, 1, shape).astype(np.float32) for i, shape in enumerate(shapes)}
    model = make_model(equation, shapes, opset)
    expanded = expand_operators(model)
    got, want = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, data)[0] for each in (expanded, model)
    )
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert np.shape(got) == np.shape(want)
    return [node.op_type for node in expanded.graph.node if node.op_type != "Identity"]


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, Shapes]:
    operands = [draw(st.permutations(sorted(SIZES)))[: draw(st.integers(1, 4))] for _ in range(draw(st.integers(1, 3)))]
    every = sorted(set().union(*operands))
    wanted = draw(st.permutations(every))[: draw(st.integers(0, len(every)))]
    left = ",".join("".join(each) for each in operands)
    shapes = [tuple(SIZES[label] for label in each) for each in operands]
    return (f"{left}->{''.join(wanted)}" if draw(st.booleans()) or not wanted else left), shapes


@given(equations(), st.sampled_from([12, 13, 17]))
@settings(max_examples=150, deadline=None)
def test_equations_are_products(drawn: tuple[str, Shapes], opset: int) -> None:
    assert "Einsum" not in check(*drawn, opset)


@pytest.mark.parametrize(
    ("equation", "shapes", "operators"),
    [
        ("bhid,bhjd->bhij", [(1, 2, 5, 4), (1, 2, 7, 4)], ["Transpose", "MatMul"]),
        ("bhij,bhjd->bhid", [(1, 2, 5, 7), (1, 2, 7, 4)], ["MatMul"]),
        ("bld,de->ble", [(1, 5, 4), (4, 6)], ["MatMul"]),
        ("bld,dhk->blhk", [(1, 5, 4), (4, 2, 3)], ["Reshape", "MatMul", "Reshape"]),
        ("...ij,...jk->...ik", [(2, 3, 4, 5), (2, 3, 5, 6)], ["MatMul"]),
        ("ij,jk", [(2, 3), (3, 4)], ["MatMul"]),
        ("i,i->", [(4,), (4,)], ["Reshape", "MatMul", "Reshape"]),
        ("i,j->ij", [(4,), (5,)], ["Reshape", "Reshape", "Mul"]),
    ],
)
def test_an_equation_takes_no_more_operators_than_it_needs(equation: str, shapes: Shapes, operators: list[str]) -> None:
    assert check(equation, shapes) == operators


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ii->i", [(3, 3)]),
        ("bij,bjk->bik", [(1, 3, 4), (2, 4, 5)]),
        ("...ij,jk->...ik", [(2, 3, 4), (4, 5)]),
    ],
)
def test_what_no_product_says_is_right_still(equation: str, shapes: Shapes) -> None:
    check(equation, shapes)
