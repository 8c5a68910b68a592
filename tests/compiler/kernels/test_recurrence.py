"""LSTM, GRU and RNN as one kernel, compared with ONNX Runtime; forms that the kernel does not know are unrolled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from vulkan_kernels import lavapipe

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.expand.expand import expand_operators
from tvmbuild.compiler.importing.expand.recurrent_kernels import suits_gpus
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.kernels.recurrence.form import GATES, Kind, Recurrence
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
KINDS: tuple[Kind, ...] = ("LSTM", "GRU", "RNN")


@dataclass(frozen=True)
class Layer:
    """A recurrence to be computed."""

    kind: Kind
    steps: int = 5
    batch: int = 1
    inputs: int = 3
    hidden: int = 20
    direction: str = "forward"
    has_bias: bool = True
    has_state: bool = True
    reads_states: bool = True
    lengths: tuple[int, ...] = ()
    """The length of each sequence, an input; empty if all are as long as the data."""
    attributes: dict[str, Any] = field(default_factory=dict)

    def make_model(self) -> onnx.ModelProto:
        """Return x → all outputs, with random weights; the initial states are inputs."""
        random, gates = np.random.default_rng(0), GATES[self.kind]
        directions = 2 if self.direction == "bidirectional" else 1
        shapes = {
            "w": (directions, gates * self.hidden, self.inputs),
            "r": (directions, gates * self.hidden, self.hidden),
            "b": (directions, 2 * gates * self.hidden),
        }
        weights = {
            name: (random.uniform(-1, 1, shape) / max(1, shape[-1] ** 0.5 * (name != "b"))).astype(np.float32)
            for name, shape in shapes.items()
        }
        states = ["h", "c"][: 2 if self.kind == "LSTM" else 1] if self.has_state else []
        batch_first = bool(self.attributes.get("layout", 0))
        whole = [directions, self.batch, self.hidden]
        data = [self.steps, self.batch, self.inputs]
        if batch_first:
            whole[:2], data[:2] = whole[1::-1], data[1::-1]
        outputs = ["y", "y_h", "y_c"][: 1 if not self.reads_states else 3 if self.kind == "LSTM" else 2]
        names = ["x", "w", "r", "b" if self.has_bias else "", "lengths" if self.lengths else "", *states]
        node = helper.make_node(
            self.kind, names, outputs, hidden_size=self.hidden, direction=self.direction, **self.attributes
        )
        relu = helper.make_node("Relu", ["y"], ["z"])  # a node reads the output
        graph = helper.make_graph(
            [node, relu],
            "net",
            [
                *(_info(name, whole if name in states else data) for name in ["x", *states]),
                *([helper.make_tensor_value_info("lengths", TensorProto.INT32, [self.batch])] if self.lengths else []),
            ],
            [_info(name, None) for name in [*outputs, "z"]],
            [numpy_helper.from_array(value, name) for name, value in weights.items() if name != "b" or self.has_bias],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _info(name: str, shape: list[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def check(layer: Layer, target: tvm.target.Target, *, is_kernel: bool = True) -> None:
    model, on_gpu = layer.make_model(), is_gpu(target)
    imported = import_model(model, "net", for_gpu=on_gpu)
    functions = {variable.name_hint.rstrip("0123456789") for variable in imported.mod.functions}
    assert (layer.kind.lower() in functions) == is_kernel
    random = np.random.default_rng(1)
    data = {info.name: random.uniform(-1, 1, info.shape).astype(np.float32) for info in imported.inputs}
    if layer.lengths:
        data["lengths"] = np.array(layer.lengths, np.int32)
    lowered = lower(imported, target)
    is_block = any("threadIdx.x" in str(each) for each in lowered.mod.functions.values())
    assert is_block == (on_gpu and is_kernel)
    got = build_here(lowered, target)(data)
    known = expand_operators(model) if "layout" in layer.attributes else model  # ONNX Runtime knows no layout
    session = onnxruntime.InferenceSession(known.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    for name, want in zip(names, session.run(names, data), strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_one_kernel(kind: Kind, cpu: tvm.target.Target) -> None:
    check(Layer(kind, batch=2, hidden=70, direction="bidirectional"), cpu)


def test_one_output_is_no_tuple(cpu: tvm.target.Target) -> None:
    check(Layer("LSTM", reads_states=False), cpu)


@pytest.mark.parametrize("before", [0, 1])
def test_a_gru_in_both_forms(before: int, cpu: tvm.target.Target) -> None:
    check(Layer("GRU", hidden=33, direction="reverse", attributes={"linear_before_reset": before}), cpu)


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_their_own_lengths(kind: Kind, cpu: tvm.target.Target) -> None:
    """PyTorch's packed sequences: each direction begins or ends where its sequence does, and zeros follow."""
    check(Layer(kind, steps=7, batch=4, hidden=33, direction="bidirectional", lengths=(7, 4, 1, 3)), cpu)


@pytest.mark.vulkan
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [128, 1024])
def test_a_layer_is_one_kernel_on_a_gpu(kind: Kind, threads: int) -> None:
    """200 units are more than 128 threads: each has several; with 1,024, threads share the state's products."""
    target = lavapipe(max_threads_per_block=threads, max_num_threads=threads)
    check(Layer(kind, batch=6, hidden=200, direction="bidirectional"), target)


@pytest.mark.vulkan
def test_a_gpu_runs_a_thousand_steps() -> None:
    """Step by step they took minutes to build."""
    check(Layer("LSTM", steps=1000, hidden=16), lavapipe())


@pytest.mark.parametrize(("steps", "is_kernel"), [(256, False), (257, True)])
def test_large_weights_are_shared_by_all_blocks_unless_there_are_many_steps(steps: int, is_kernel: bool) -> None:
    form = Recurrence("LSTM", steps, 1, 300, (False,))
    assert form.is_large
    assert suits_gpus(form) == is_kernel


def test_a_block_that_reads_large_weights_in_each_step_is_told() -> None:
    layer = Layer("RNN", steps=257, hidden=500, has_state=False)
    notes = lower(import_model(layer.make_model(), "net", for_gpu=True), lavapipe()).notes
    assert [note for note in notes if "all 257 steps" in note and "RNN of 500 units" in note]


UNROLLED: dict[str, Layer] = {
    "a clip": Layer("LSTM", attributes={"clip": 0.4}),
    "one gate from another": Layer("LSTM", attributes={"input_forget": 1}),
    "other activations": Layer("GRU", attributes={"activations": ["Sigmoid", "Relu"]}),
    "one step": Layer("LSTM", steps=1),
    "many sequences": Layer("GRU", batch=5),
    "large weights": Layer("RNN", hidden=800, steps=2),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", UNROLLED)
def test_what_the_kernel_does_not_know_is_unrolled(case: str, cpu: tvm.target.Target) -> None:
    check(UNROLLED[case], cpu, is_kernel=False)


@st.composite
def draw_layers(draw: st.DrawFn) -> Layer:
    kind = draw(st.sampled_from(KINDS))
    attributes: dict[str, Any] = {}
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    if kind == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if kind == "RNN" and draw(st.booleans()):
        attributes["activations"] = ["Relu"] * (2 if direction == "bidirectional" else 1)
    if draw(st.integers(0, 3)) == 0:
        attributes["layout"] = 1
    steps, batch = draw(st.integers(2, 7)), draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(1, steps), min_size=batch, max_size=batch) | st.just([]))
    return Layer(
        kind,
        steps,
        batch,
        draw(st.integers(1, 9)),
        draw(st.integers(1, 100)),
        direction,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        tuple(lengths),
        attributes,
    )


@st.composite
def draw_gpus(draw: st.DrawFn) -> tvm.target.Target:
    threads = draw(st.sampled_from([128, 256, 1024]))
    shared = draw(st.sampled_from([16384, 32768]))
    return lavapipe(max_threads_per_block=threads, max_num_threads=threads, max_shared_memory_per_block=shared)


@pytest.mark.nightly
def test_any_layer(cpu: tvm.target.Target) -> None:
    @given(draw_layers())
    @settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), print_blob=True)
    def run(layer: Layer) -> None:
        check(layer, cpu)

    run()


@pytest.mark.nightly
@pytest.mark.vulkan
def test_any_layer_on_a_gpu() -> None:
    @given(draw_layers(), draw_gpus())
    @settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck), print_blob=True)
    def run(layer: Layer, target: tvm.target.Target) -> None:
        check(layer, target)

    run()


def test_weights_of_every_gate_and_unit_are_packed_once() -> None:
    form = Recurrence("GRU", 2, 1, 20, (False, True))
    weights = 1 + np.arange(2 * 60 * 20, dtype=np.float32).reshape(2, 60, 20)
    packed = form.pack_weights(weights)
    assert packed.shape == (form.directions * form.width * form.hidden,)
    assert sorted(packed[packed > 0]) == list(weights.ravel())
