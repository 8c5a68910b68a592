"""com.microsoft's quantised operators, except products, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import helper
from quantized_nodes import BYTES, MICROSOFT, Drawn, check

Case: TypeAlias = tuple[onnx.ModelProto, dict[str, np.ndarray]]
FEW = settings(max_examples=draws(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SHAPES = ((1, 3, 5, 6), (2, 4, 8, 8), (7,), (3, 1))


def operand(drawn: Drawn, name: str, shape: tuple[int, ...], kind: str) -> list[str]:
    return [drawn.tensor(name, shape, kind), *parameters(drawn, name, kind)]


def parameters(drawn: Drawn, name: str, kind: str, most: float = 0.1) -> list[str]:
    return [drawn.scale(f"{name}_scale", most=most), drawn.zero_point(f"{name}_zero", kind)]


def finish(drawn: Drawn, operator: str, names: list[str], **attributes: Any) -> Case:
    node = helper.make_node(operator, names, ["y"], domain=MICROSOFT, **attributes)
    return drawn.model(node, drawn.pick(13, 17, 21)), drawn.fed


@st.composite
def binary(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    kind, operator, shape = drawn.pick(*BYTES), drawn.pick("QLinearAdd", "QLinearMul"), drawn.pick(*SHAPES)
    names = operand(drawn, "a", shape, kind)
    names += operand(drawn, "b", drawn.pick(shape, shape, (1,), shape[-1:]), kind)
    return finish(drawn, operator, names + parameters(drawn, "y", kind, most=drawn.pick(0.2, 0.9)))


@given(drawn=binary())
@FEW
def test_sums_and_products(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu, steps=1)


@st.composite
def unary(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    kind, operator = drawn.pick(*BYTES), drawn.pick("QLinearSigmoid", "QLinearLeakyRelu")
    alpha = {"alpha": drawn.pick(0.1, 1.5)} if operator == "QLinearLeakyRelu" else {}
    names = operand(drawn, "x", drawn.pick(*SHAPES), kind)
    return finish(drawn, operator, names + parameters(drawn, "y", kind, 1 / 200 if not alpha else 0.1), **alpha)


@given(drawn=unary())
@FEW
def test_activations(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu, steps=1)


@st.composite
def pools(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    kind, last = drawn.pick(*BYTES), drawn.pick(0, 1)
    rank = drawn.pick(2, 2, 1, 3)
    channels, size = drawn.pick(1, 3, 8), [drawn.pick(5, 6, 8) for _ in range(rank)]
    shape = (1, *size, channels) if last else (1, channels, *size)
    names = operand(drawn, "x", shape, kind) + parameters(drawn, "y", kind)
    if drawn.pick(True, False):
        return finish(drawn, "QLinearGlobalAveragePool", names, channels_last=last)
    attributes = {"kernel_shape": [drawn.pick(2, 3)] * rank, "strides": [drawn.pick(1, 2)] * rank}
    if drawn.pick(True, False):
        attributes["pads"] = [drawn.pick(0, 1) for _ in range(2 * rank)]
    attributes |= {"ceil_mode": drawn.pick(0, 1), "count_include_pad": drawn.pick(0, 1), "channels_last": last}
    return finish(drawn, "QLinearAveragePool", names, **attributes)


@given(drawn=pools())
@FEW
def test_pools(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu, steps=1)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "stride", "pads"),
    [(2, 2, [0, 0, 0, 0]), (3, 2, [1, 0, 0, 1]), (3, 2, [0, 1, 1, 1]), (2, 3, [1, 1, 1, 1])],
)
def test_windows_that_reach_beyond_the_padding(
    cpu: tvm.target.Target, kernel: int, stride: int, pads: list[int], last: int
) -> None:
    drawn = Drawn(random=np.random.default_rng(0))
    drawn.fed["x"] = drawn.random.integers(0, 256, (1, 5, 6, 3) if last else (1, 3, 5, 6), "uint8")
    names = ["x", drawn.constant("s", 0.1), drawn.constant("z", 7, "uint8"), drawn.constant("t", 0.0917), "z"]
    attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads, "channels_last": last}
    node = helper.make_node(
        "QLinearAveragePool", names, ["y"], domain=MICROSOFT, ceil_mode=1, count_include_pad=1, **attributes
    )
    check((drawn.model(node), drawn.fed), cpu, steps=1)


@st.composite
def softmaxes(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    kind, opset = drawn.pick(*BYTES), drawn.pick(12, 13, 17)
    names = operand(drawn, "x", drawn.pick((1, 10), (2, 3, 8), (4, 5)), kind)
    names += [drawn.constant("y_scale", 1 / 256), drawn.constant("y_zero", np.iinfo(kind).min, kind)]
    node = helper.make_node("QLinearSoftmax", names, ["y"], domain=MICROSOFT, axis=drawn.pick(-1, 1), opset=opset)
    return drawn.model(node, opset), drawn.fed


@given(drawn=softmaxes())
@FEW
def test_softmax(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu, steps=1)


@st.composite
def choices(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    kind, shape = drawn.pick(*BYTES), drawn.pick(*SHAPES)
    drawn.fed["c"] = drawn.random.integers(0, 2, shape).astype(bool)
    names = ["c", *operand(drawn, "a", shape, kind), *operand(drawn, "b", drawn.pick(shape, (1,)), kind)]
    return finish(drawn, "QLinearWhere", names + parameters(drawn, "y", kind))


@given(drawn=choices())
@FEW
def test_where(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu, steps=1)


@st.composite
def joined(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    kind, axis = drawn.pick(*BYTES), drawn.pick(0, 1, -1)
    names = parameters(drawn, "y", kind)
    for index in range(drawn.pick(1, 2, 3)):
        shape = [2, 3, 4]
        shape[axis] = drawn.pick(1, 5)
        own = operand(drawn, f"x{index}", tuple(shape), kind)
        names += [own[0], *names[:2]] if drawn.pick(True, False) else own
    return finish(drawn, "QLinearConcat", names, axis=axis)


@given(drawn=joined())
@FEW
def test_concat(cpu: tvm.target.Target, drawn: Case) -> None:
    check(drawn, cpu)
