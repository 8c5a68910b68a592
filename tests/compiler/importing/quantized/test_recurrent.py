"""ONNX Runtime's LSTM with integer weights, compared with ONNX Runtime."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import helper
from quantized_nodes import BYTES, MICROSOFT, Drawn, run_built

from tvmbuild.preparing.reference import run_onnx

pytestmark = pytest.mark.compiler
Case: TypeAlias = tuple[onnx.ModelProto, dict[str, np.ndarray]]
NAMES = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"]


@st.composite
def layers(draw: st.DrawFn) -> Case:
    drawn = Drawn.start(draw)
    steps, batch, inputs, hidden = drawn.pick(1, 4), drawn.pick(1, 1, 3), drawn.pick(1, 5, 16), drawn.pick(1, 4, 8)
    direction, kind = drawn.pick("forward", "reverse", "bidirectional"), drawn.pick(*BYTES)
    directions, width = 1 + (direction == "bidirectional"), 4 * hidden
    per = drawn.pick((directions,), (directions, width))
    names = list(NAMES)
    drawn.fed["x"] = drawn.random.uniform(-1, 3, (steps, batch, inputs)).astype("float32")
    for name, rows in (("w", inputs), ("r", hidden)):
        values = drawn.random.integers(0, 128, (directions, rows, width)) - (64 if kind == "int8" else 0)
        drawn.constant(name, values, kind)
        drawn.scale(f"{name}s", per, most=0.02)
        drawn.constant(f"{name}z", np.full(per, 0 if kind == "int8" else drawn.pick(0, 64)), kind)
    for place, name, shape in (
        (3, "b", (directions, 2 * width)),
        (5, "h", (directions, batch, hidden)),
        (6, "c", (directions, batch, hidden)),
    ):
        if drawn.pick(True, False):
            names[place] = name
            values = drawn.random.uniform(-1, 1, shape).astype("float32")
            (drawn.constants if name == "b" else drawn.fed)[name] = values
    if drawn.pick(True, False):
        lengths = drawn.random.integers(1, steps, batch, endpoint=True)
        lengths[0] = steps  # ONNX Runtime does not quantise steps beyond the longest sequence
        names[4] = drawn.constant("lengths", lengths, "int32")
    attributes = {"hidden_size": hidden, "direction": direction}
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "y_h", "y_c"], domain=MICROSOFT, **attributes)
    return drawn.model(node), drawn.fed


@given(drawn=layers())
@settings(max_examples=draws(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_lstm_of_integers(cpu: tvm.target.Target, drawn: Case) -> None:
    model, fed = drawn
    wanted = run_onnx(model.SerializeToString(), fed, "it")  # one thread: each thread has a range for its own sequences
    # Here the state of a sequence that has ended lies within the range of those that continue.
    near = 1e-2 if fed["x"].shape[1] > 1 and "lengths" in model.graph.node[0].input else 1e-5
    for got, want in zip(run_built(*drawn, cpu), wanted.values(), strict=True):
        np.testing.assert_allclose(got, want, rtol=near, atol=near)
