"""Attention becomes one function, except in some forms; constant masks leave out parts of the work."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from drawn_attention import Drawn
from onnx import helper
from spelled_attention import Form, make_model
from tvm import tirx

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.kernels.attention.cpu.sizes import _sizes, choose_last
from tvmbuild.compiler.kernels.attention.cpu.tiles import _shifts
from tvmbuild.compiler.kernels.attention.form import Attention
from tvmbuild.compiler.machine.machine import Machine
from tvmbuild.compiler.passes.attention.fuse_attention import fuse_attention
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

HEADS, SIZE = 2, 8
pytestmark = pytest.mark.compiler


WIDTH = HEADS * SIZE
PLAIN = Form(
    seed=0,
    opset=17,
    batch=1,
    groups=2,
    each=1,
    tokens=17,
    keys=20,
    size=8,
    value_size=8,
    source="inputs",
    mask="none",
    scale="scores",
    softmax="operator",
    product="MatMul",
    seen="nothing",
    cap=False,
    projected=False,
    operator="written",
)
Project = Callable[[Drawn, str], list[str]]
"""A function that makes query, key and value, [1, tokens, WIDTH] each, from a tensor."""


def multiply(drawn: Drawn, x: str, columns: int = WIDTH) -> str:
    product = drawn.add("MatMul", x, drawn.constant(drawn.random.uniform(-1, 1, (WIDTH, columns))))
    return drawn.add("Add", product, drawn.constant(drawn.random.uniform(-1, 1, columns)))


def of_their_own(drawn: Drawn, x: str) -> list[str]:
    return [multiply(drawn, x) for _ in range(3)]


def slice_one(drawn: Drawn, x: str) -> list[str]:
    whole = drawn.reshape(multiply(drawn, drawn.reshape(x, -1, WIDTH), 3 * WIDTH), 1, -1, 3 * WIDTH)
    bounds = ([drawn.constant([each * WIDTH], "int64") for each in (part, part + 1)] for part in range(3))
    return [drawn.add("Slice", whole, begin, end, drawn.constant([-1], "int64")) for begin, end in bounds]


def split_one(drawn: Drawn, x: str) -> list[str]:
    drawn.nodes.append(helper.make_node("Split", [multiply(drawn, x, 3 * WIDTH)], ["q", "k", "v"], axis=-1))
    return ["q", "k", "v"]


def encode(
    tokens: int, mask: np.ndarray | None = None, *, seen: bool = False, project: Project = of_their_own
) -> Drawn:
    """Return self-attention of one tensor, by weights for query, key and value; ``seen`` reads its scores again."""
    drawn = Drawn(np.random.default_rng(0))
    parts = [
        drawn.add("Transpose", drawn.reshape(each, 1, tokens, HEADS, SIZE), perm=[0, 2, 1, 3])
        for each in project(drawn, drawn.feed(1, tokens, WIDTH))
    ]
    query, key, value = parts
    scores = drawn.add("MatMul", query, drawn.add("Transpose", key, perm=[0, 1, 3, 2]))
    scores = drawn.add("Mul", scores, drawn.constant(SIZE**-0.5))
    scores = scores if mask is None else drawn.add("Add", scores, drawn.constant(mask))
    if seen:
        drawn.nodes.append(helper.make_node("ReduceMax", [scores], ["top"], keepdims=0, axes=[0, 1, 2, 3]))
    out = drawn.add("MatMul", drawn.add("Softmax", scores, axis=-1), value)
    out = drawn.reshape(drawn.add("Transpose", out, perm=[0, 2, 1, 3]), 1, tokens, WIDTH)
    drawn.outputs = [drawn.add("Add", out, "top") if seen else out]
    return drawn


def find_forms(drawn: Drawn) -> list[Attention]:
    forms: list[Attention] = []
    fuse_attention(import_model(drawn.model, "drawn").mod, forms.append)
    return forms


def compare(drawn: Drawn, target: tvm.target.Target) -> list[str]:
    """Compare with ONNX Runtime; return the Tasks' names."""
    lowered = lower(import_model(drawn.model, "drawn"), target)
    (got,) = build_here(lowered, target)(drawn.inputs).values()
    (want,) = onnxruntime.InferenceSession(drawn.model.SerializeToString()).run(None, drawn.inputs)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return [task.name for task in extract_tasks(lowered)]


def count_columns(drawn: Drawn) -> list[int]:
    """Return the number of columns of each product with constant weights, after attention is fused."""
    mod = fuse_attention(import_model(drawn.model, "drawn").mod, lambda _: tirx.PrimFunc([], tirx.Evaluate(0)))
    return [int(call.args[1].ty.shape.values[-1]) for call in operator_calls(mod, "relax.matmul")]


@pytest.mark.parametrize("project", [of_their_own, slice_one, split_one])
def test_projections_are_one_product_of_no_more_columns_and_no_transpose_is_left(
    project: Project, cpu: tvm.target.Target
) -> None:
    drawn = encode(21, project=project)
    # The last node makes the output; elsewhere it would be a view.
    assert compare(drawn, cpu) == ["matmul_add", "attention", "reshape"]
    assert count_columns(drawn) == [3 * WIDTH]


@pytest.mark.parametrize(
    "spelling",
    [{"product": "Einsum"}, {"softmax": "written out"}, {"scale": "after the mask", "mask": "bias"}, {"cap": True}],
    ids=lambda spelling: " ".join(map(str, spelling.values())),
)
def test_it_is_found_however_it_is_spelled(spelling: dict[str, Any], cpu: tvm.target.Target) -> None:
    model, _ = make_model(replace(PLAIN, **spelling))
    lowered = lower(import_model(model, "drawn"), cpu)
    names = [task.name for task in extract_tasks(lowered)]
    assert "attention" in names
    assert not any("softmax" in name or "matmul" in name or "exp" in name for name in names)


def test_scores_that_are_used_elsewhere_stay_scores(cpu: tvm.target.Target) -> None:
    names = compare(encode(9, seen=True), cpu)
    assert "attention" not in names
    assert any("softmax" in name for name in names)


def test_operands_are_read_where_they_lie() -> None:
    (form,) = find_forms(encode(21))
    assert [each.shape for each in form.inputs] == [(1, 21, 3 * HEADS * SIZE)]
    assert (form.heads, form.rows, form.keys, form.rows_after) == ((HEADS,), 21, 21, 0)
    assert [each.offset for each in (form.query, form.key, form.value)] == [0, 16, 32]
    assert {(each.row, each.column, each.heads) for each in (form.query, form.key, form.value)} == {(48, 1, (SIZE,))}
    assert math.isclose(form.scale, SIZE**-0.5, rel_tol=1e-6)


def causal(tokens: int, window: int | None = None) -> np.ndarray[Any, Any]:
    rows, keys = np.indices((tokens, tokens))
    return np.where((keys <= rows) & (keys > rows - (window or tokens)), 0, -np.inf).astype(np.float32)


@pytest.mark.parametrize(
    ("mask", "shifts"),
    [
        (causal(150), (None, 1)),
        (causal(150, 20), (-19, 1)),
        (causal(150).T, (0, None)),
        (np.where(np.arange(150) % 3 > 0, -np.inf, 0), (None, None)),
    ],
)
def test_hidden_keys_are_left_out(
    mask: np.ndarray[Any, Any], shifts: tuple[int | None, int | None], cpu: tvm.target.Target
) -> None:
    drawn = encode(150, mask)
    assert [_shifts(form) for form in find_forms(drawn)] == [shifts]
    assert "attention" in compare(drawn, cpu)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("tokens", "vectors"), [(16, None), (19, 1), (33, 1), (39, 1), (45, None), (8, None), (5, None)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_the_last_queries_are_no_more_vectors_than_they_fill(
    tokens: int, vectors: int | None, masked: bool, cpu: tvm.target.Target
) -> None:
    drawn = encode(tokens, causal(tokens) if masked else None)
    (form,) = find_forms(drawn)
    machine = Machine(32, 16, 1)
    last = choose_last(form, machine, _sizes(form, machine, 8, 2))
    assert (last and last.vectors) == vectors
    assert "attention" in compare(drawn, cpu)


def test_a_row_without_any_key_is_no_number_as_in_onnx_runtime(cpu: tvm.target.Target) -> None:
    mask = np.zeros((20, 20), np.float32)
    mask[3] = -np.inf
    assert "attention" in compare(encode(20, mask), cpu)
