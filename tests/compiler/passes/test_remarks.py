"""A rewrite that leaves an operator which it is made for says what it found, and says nothing of other operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
import onnx.parser
import pytest
import tvm
from onnx import numpy_helper
from task_key_networks import NETWORKS

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.dump import record_passes
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.remarks import collect_missed, is_missed, missed

Constants: TypeAlias = "dict[str, tuple[int, ...] | np.ndarray]"
"""Name → values, or the shape of weights that are drawn."""


def describe(mcpu: str, *features: str) -> tvm.target.Target:
    attributes: Attributes = FrozenMap({"mcpu": mcpu, "mtriple": "x86_64-linux-gnu", "num-cores": 2, "mattr": features})
    return tvm_target("llvm", attributes, FrozenMap())


TARGETS = {
    "cpu": describe("x86-64-v3"),
    "no dot instruction": describe("x86-64"),
    "dot instruction": describe("x86-64-v4", "+avx512vnni"),
}


@dataclass(frozen=True)
class Case:
    """A graph in ONNX's text syntax, x → y, and what a pass says of it."""

    passed: str
    body: str
    reasons: dict[str, int]
    inputs: str = "float[1,16,8,8] x"
    constants: Constants = field(default_factory=dict)
    target: str = "cpu"
    output: str = "float"


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


HEADS = "float[1,2,16,8] q, float[1,2,8,16] k, float[1,2,16,8] v"
STEPS = {"s": np.float32(0.01), "zero": np.int8(0), "w": np.ones((16, 16, 3, 3), np.int8)}
WEIGHTS = "u = DequantizeLinear (w, s, zero)"
CASES = {
    "strides": Case(
        "ApplyWinograd",
        "y = Conv <strides=[2, 2]> (x, w)",
        {"its strides are 2 x 2": 1},
        constants={"w": (16, 16, 3, 3)},
    ),
    "few channels": Case(
        "ApplyWinograd",
        "y = Conv (x, w)",
        {"it has fewer than 16 channels: 16 to 8": 1},
        constants={"w": (8, 16, 3, 3)},
    ),
    "computed weights": Case(
        "ApplyWinograd",
        "y = Conv (x, w)",
        {"its weights are computed, not constant": 1},
        "float[1,16,8,8] x, float[16,16,3,3] w",
    ),
    "no algorithm": Case(
        "ApplyWinograd",
        "y = Conv (x, w)",
        {"no algorithm but the direct one is chosen for it": 1},
        constants={"w": (16, 16, 3, 3)},
    ),
    "full vectors": Case(
        "PadConvChannels",
        "a = Conv (x, w) y = Conv (a, v)",
        {
            "32 channels already fill whole vectors of 8": 1,
            "channels filled up from 4 would be in no fewer vectors of 8": 1,
        },
        constants={"w": (32, 16, 1, 1), "v": (4, 32, 1, 1)},
    ),
    "columns": Case(
        "PadMatmulColumns",
        "a = MatMul (x, w) y = MatMul (a, b)",
        {"16 columns already fill whole vectors of 8": 1, "its weights are computed, not constant": 1},
        "float[4,8] x, float[16,7] b",
        {"w": (8, 16)},
    ),
    "a single row": Case(
        "PadMatmulColumns",
        "y = MatMul (x, w)",
        {"a single row reads its weights of 7 columns about as fast as they are": 1},
        "float[1,8] x",
        {"w": (8, 7)},
    ),
    "scores seen": Case(
        "FuseAttention",
        "s = MatMul (q, k) p = Softmax (s) o = MatMul (p, v) t = ReduceMax <keepdims=1> (s) y = Add (o, t)",
        {"its scores are also used elsewhere": 1},
        HEADS,
    ),
    "weights seen": Case(
        "FuseAttention",
        "s = MatMul (q, k) p = Softmax (s) o = MatMul (p, v) t = ReduceMax <keepdims=1> (p) y = Add (o, t)",
        {"the result of its softmax is also used elsewhere": 1},
        HEADS,
    ),
    "clipped scores": Case(
        "FuseAttention",
        "s = MatMul (q, k) c = Relu (s) p = Softmax (c) y = MatMul (p, v)",
        {"nn.relu stands between its first product and its softmax": 1},
        HEADS,
    ),
    "another axis": Case(
        "FuseAttention",
        "s = MatMul (q, k) p = Softmax <axis=2> (s) y = MatMul (p, v)",
        {"its softmax is along axis 2 of 4": 1},
        HEADS,
    ),
    "scales of heads": Case(
        "FuseAttention",
        "s = MatMul (q, k) c = Mul (s, w) p = Softmax (c) y = MatMul (p, v)",
        {"multiply of its scores has an operand that is not one constant number": 1},
        HEADS,
        {"w": (2, 1, 1)},
    ),
    "data in floats": Case(
        "LowerQdqToInt8",
        f"{WEIGHTS} y = Conv (x, u)",
        {"its weights are quantised and its data are not": 1},
        constants=STEPS,
    ),
    "groups without an instruction": Case(
        "LowerQdqToInt8",
        f"{WEIGHTS} a = QuantizeLinear (x, s, zero) b = DequantizeLinear (a, s, zero) y = Conv <group=2> (b, u)",
        {"the target has no dot instruction, and tiles for groups of floats": 1},
        "float[1,32,8,8] x",
        STEPS,
        "no dot instruction",
    ),
    "groups of several channels": Case(
        "PadInt8Channels",
        f"{WEIGHTS} a = QuantizeLinear (x, s, zero) b = DequantizeLinear (a, s, zero) y = Conv <group=2> (b, u)",
        {"it has groups of several channels": 1},
        "float[1,32,8,8] x",
        STEPS,
        "dot instruction",
    ),
    "patches": Case(
        "SplitConvTransposeByPhase",
        "y = ConvTranspose <strides=[2, 2]> (x, w)",
        {"its windows do not overlap: it may be one product of matrices": 1},
        constants={"w": (16, 6, 2, 2)},
    ),
    "depthwise": Case(
        "FlattenConv3d",
        "y = Conv <group=4> (x, w)",
        {"it is depthwise: each output is of few products": 1},
        "float[1,4,4,8,8] x",
        {"w": (4, 1, 3, 3, 3)},
    ),
    "a small dilation": Case(
        "DropPaddedTaps",
        "y = Conv <dilations=[2, 2], pads=[2, 2, 2, 2]> (x, w)",
        {"few of its taps read only padding": 1},
        constants={"w": (16, 16, 3, 3)},
    ),
    "outputs of padding": Case(
        "DropPaddedTaps",
        "y = Conv <dilations=[9, 9], pads=[18, 18, 18, 18]> (x, w)",
        {"some of its outputs read only padding": 1},
        constants={"w": (16, 16, 3, 3)},
    ),
    "an operand as it comes": Case(
        "SinkTransposes",
        "a = Conv (x, w) b = Flatten <axis=2> (a) c = Add (b, z) y = Relu (c)",
        {"an operand of add is neither transposed nor constant": 1},
        "float[1,16,8,8] x, float[16,64] z",
        {"w": (16, 16, 1, 1)},
    ),
    "infinite maximum": Case(
        "FindSoftmax",
        "m = ReduceMax <axes=[1]> (x) d = Sub (x, m) e = Exp (d) s = ReduceSum (e, axes) y = Div (e, s)",
        {"its maximum is a function of its own, which may meet infinities": 1},
        "float[4,8] x",
        {"axes": integers(1)},
    ),
    "maximum of all": Case(
        "FindSoftmax",
        "a = Sigmoid (x) m = ReduceMax (a) d = Sub (a, m) e = Exp (d) s = ReduceSum (e, axes) y = Div (e, s)",
        {"its maximum and its sum are not along one and the same axis, which stays": 1},
        "float[4,8] x",
        {"axes": integers(1)},
    ),
    "added up": Case(
        "ScatterToSelect",
        'y = ScatterND <reduction="add"> (x, i, r)',
        {"it does not write: its reduction is add": 1},
        "float[4,8] x, float[1,8] r",
        {"i": integers(2).reshape(1, 1)},
    ),
    "rows apart": Case(
        "JoinResiduals",
        "a = MatMul (x, w) b = Reshape (a, shape) y = Add (b, r)",
        {"the reshape before the sum does more than put axes of one element in front": 1},
        "float[6,8] x, float[2,3,8] r",
        {"w": (8, 8), "shape": integers(2, 3, 8)},
    ),
    "numbers that do not count": Case(
        "OneHotToTake",
        "e = Equal (x, n) h = Cast <to=1> (e) y = MatMul (h, w)",
        {"its numbers are not compared with 0, 1, 2 and so on, up to 3": 1},
        "int64[4,1] x",
        {"n": integers(0, 1, 3), "w": (3, 8)},
    ),
    "a rounded quotient": Case(
        "ScalarConstants",
        "a = Div (x, by) y = Floor (a)",
        {"what it divides is rounded further on, where a last bit decides": 1},
        "float[4,8] x",
        {"by": np.float32(41)},
    ),
    "a sum alone": Case(
        "FuseNormalization",
        "y = ReduceSum <keepdims=1> (x, axes)",
        {"nothing over the same rows follows it": 1},
        "float[64,64] x",
        {"axes": integers(1)},
    ),
}


def make(case: Case) -> onnx.ModelProto:
    random = np.random.RandomState(0)
    text = f'<ir_version: 8, opset_import: ["" : 17]> net ({case.inputs}) => ({case.output} y) {{ {case.body} }}'
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for name, given in case.constants.items():
        values = random.uniform(-1, 1, given).astype(np.float32) if isinstance(given, tuple) else given
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
    return model


def collect(model: onnx.ModelProto, target: str) -> dict[str, dict[str, int]]:
    """Return the remarks of each pass that made some."""
    with record_passes() as ran:
        lower(import_model(model, "net"), TARGETS[target])
    return {each.name: dict(each.missed) for each in ran if each.missed}


@pytest.mark.parametrize("name", CASES)
def test_a_pass_says_why_it_leaves_an_operator(name: str) -> None:
    case = CASES[name]
    assert collect(make(case), case.target).get(case.passed) == case.reasons


def test_passes_say_nothing_of_operators_that_they_are_not_made_for() -> None:
    body = "a = Relu (x) b = Add (a, z) c = Transpose <perm=[0, 2, 3, 1]> (b) y = Sigmoid (c)"
    assert collect(make(Case("", body, {}, "float[1,16,8,8] x, float[1,16,8,8] z")), "cpu") == {}
    found = collect(make(Case("", "y = Conv (x, w)", {}, constants={"w": (32, 16, 1, 1)})), "cpu")
    assert set(found) == {"PadConvChannels"}


@pytest.mark.parametrize("network", ["convolutions", "transposed", "int8_moved", "attention", "norm_in_operators"])
def test_reasons_are_short_clauses(network: str) -> None:
    for reasons in collect(NETWORKS[network](), "dot instruction").values():
        for reason in reasons:
            assert len(reason) < 100
            assert reason == reason.strip(".")


def test_the_first_obstacle_is_told_and_the_others_not_looked_for() -> None:
    def give(*reasons: str) -> Iterator[str]:
        yield from reasons
        assert not reasons, "asked for more"

    with collect_missed() as collected:
        assert is_missed(give("a", "b"))
        assert not is_missed(give())
        assert missed("a") is None
    assert collected == {"a": 2}
    assert missed("nobody collects it") is None
