"""LSTMs with integer weights by each dot instruction: to the last bit what floats make of the same integers."""

from __future__ import annotations

from dataclasses import dataclass
from unittest import mock

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from quantized_nodes import MICROSOFT, Drawn
from tvm import tirx

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.prim_funcs import names_instructions
from tvmbuild.compiler.kernels.recurrence.dot_products import TOGETHER, WholeBytes, choose_products
from tvmbuild.compiler.kernels.recurrence.form import FORM, Recurrence
from tvmbuild.compiler.kernels.recurrence.kernel import write_recurrence
from tvmbuild.compiler.machine.dot_instructions import INSTRUCTIONS, DotInstruction, find_instruction
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.passes.int8 import lower_recurrences
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.preparing.exact_integers import use_exact_integers
from tvmbuild.preparing.reference import run_onnx

pytestmark = pytest.mark.compiler
CPUS = {"x86-64-v3": "avx2", "x86-64-v4": "avx512bw", "cascadelake": "avx512vnni", "alderlake": "avxvnni"}
"""CPU → the feature that its instruction needs."""
HERE = {str(name) for name in tvm.target.codegen.llvm_get_cpu_features(host_target(threads=2))}
RUN = [name for name, feature in CPUS.items() if feature in HERE]


def describe(cpu: str) -> tvm.target.Target:
    triple = "aarch64-linux-gnu" if cpu.startswith(("cortex", "neoverse")) else "x86_64-linux-gnu"
    return tvm_target("llvm", FrozenMap({"mcpu": cpu, "mtriple": triple, "num-cores": 2}), FrozenMap())


@dataclass(frozen=True)
class Layer:
    """A DynamicQuantizeLSTM of five steps."""

    hidden: int
    direction: str = "forward"
    weights: str = "int8"
    per_channel: bool = False
    state: float = 1.0
    """The largest of the initial states."""

    def make(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """Return the model and what it is fed."""
        drawn, directions = Drawn(np.random.default_rng(self.hidden)), 1 + (self.direction == "bidirectional")
        per = (directions, 4 * self.hidden) if self.per_channel else (directions,)
        low, high = (-127, 127) if self.weights == "int8" else (0, 255)
        drawn.fed["x"] = drawn.random.uniform(-1, 3, (5, 1, 7)).astype("float32")
        for name, rows in (("w", 7), ("r", self.hidden)):
            shape = (directions, rows, 4 * self.hidden)
            drawn.constant(name, drawn.random.integers(low, high, shape, endpoint=True), self.weights)
            drawn.constant(f"{name}s", drawn.random.uniform(0.002, 0.02, per) / self.hidden**0.5)
            # Less 90, some weights of uint8 do not fit into int8. ONNX Runtime wants one zero point for all columns.
            drawn.constant(f"{name}z", np.full(per, 0 if self.weights == "int8" else 90), self.weights)
        for name in ("h", "c"):
            shape = (directions, 1, self.hidden)
            drawn.fed[name] = drawn.random.uniform(-self.state, self.state, shape).astype("float32")
        names = ["x", "w", "r", "", "", "h", "c", "", "ws", "wz", "rs", "rz"]
        attributes = {"hidden_size": self.hidden, "direction": self.direction}
        node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "y_h", "y_c"], domain=MICROSOFT, **attributes)
        return drawn.model(node), drawn.fed


LAYERS = {
    **{f"{hidden} hidden units": Layer(hidden, "bidirectional") for hidden in (1, 5, 17, 33, 100)},
    "uint8": Layer(33, "bidirectional", "uint8"),
    "uint8, a scale for each column": Layer(100, "reverse", "uint8", per_channel=True),
    "int8, a scale for each column": Layer(20, "reverse", per_channel=True),
    "states of zeros": Layer(32, state=0.0),
}


def lower_layer(model: onnx.ModelProto, target: tvm.target.Target, *, by_floats: bool = False) -> Lowered:
    found = None if by_floats else find_instruction(target)
    with mock.patch.object(lower_recurrences, "find_instruction", return_value=found):
        return lower(import_model(model, "net"), target)


def find_kernel(lowered: Lowered) -> tirx.PrimFunc:
    (name,) = (each for each in lowered.mod.functions if each.name_hint.startswith("lstm"))
    return lowered.mod[name]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cpu", RUN)
@pytest.mark.parametrize("name", LAYERS)
def test_the_numbers_are_those_of_floats_and_of_onnx_runtime(name: str, cpu: str) -> None:
    (model, fed), target = LAYERS[name].make(), describe(cpu)
    lowered, by_floats = lower_layer(model, target), lower_layer(model, target, by_floats=True)
    assert names_instructions(find_kernel(lowered))
    assert FORM in find_kernel(by_floats).attrs
    got, same = build_here(lowered, target)(fed), build_here(by_floats, target)(fed)
    wanted = run_onnx(use_exact_integers(model.SerializeToString()), fed, "it")
    for output, want in wanted.items():
        np.testing.assert_array_equal(got[output], same[output])
        np.testing.assert_allclose(got[output], want, rtol=1e-4, atol=1e-4)


WRITTEN = {
    "alderlake": "vpdpbusd",
    "cortex-a72": "sadalp",
    "cortex-a76": "sdot",
    "neoverse-n2": "sudot",
    "x86-64-v3": "vpmaddubsw",
    "x86-64-v4": "vpmaddubsw",
    "znver4": "vpdpbusd",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cpu", WRITTEN)
def test_the_code_has_the_instruction(cpu: str) -> None:
    target = describe(cpu)
    kernel = find_kernel(lower_layer(Layer(33).make()[0], target)).with_attr("global_symbol", "lstm")
    with target:
        assembly = tvm.compile(tvm.IRModule({"lstm": kernel}), target).mod.inspect_source("asm")
    assert WRITTEN[cpu] in assembly


def test_a_target_without_an_instruction_keeps_the_kernel() -> None:
    lowered = lower_layer(Layer(20).make()[0], describe("x86-64"))
    kernel = find_kernel(lowered)
    assert not names_instructions(kernel)
    assert Recurrence.of_function(kernel) == Recurrence("LSTM", 5, 1, 20, (False,), weights="int8")
    build_executable(lowered.mod, describe("x86-64"))


def test_floats_say_nothing_of_themselves() -> None:
    assert Recurrence.of_function(write_recurrence(Recurrence("GRU", 2, 1, 5, (False,)))) is None


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=lambda each: each.name)
@pytest.mark.parametrize("weights", ["int8", "int16"])
def test_packed_weights_and_constants_are_the_weights(weights: str, instruction: DotInstruction) -> None:
    form = Recurrence("LSTM", 2, 1, 21, (False, True), weights=weights)  # type: ignore[arg-type]
    products, random = choose_products(form, instruction), np.random.default_rng(0)
    middle = random.integers(-100, 100, (2, 1, 4 * 21)) if weights == "int16" else 0
    given = random.integers(-128, 127, (2, 4 * 21, 21), endpoint=True).swapaxes(1, 2) + middle
    flat = form.pack_weights(given.swapaxes(1, 2))
    packed, constants = products.pack(flat, random.uniform(size=(2, form.width)).astype(np.float32))
    assert (packed.shape, constants.shape) == products.shapes
    panels = packed.reshape(form.directions, form.panels, products.size)
    lanes, columns = instruction.lanes, products.columns
    if isinstance(products, WholeBytes):
        apart = panels.reshape(2, form.panels, -1, columns // lanes, instruction.steps, lanes, instruction.group)
        whole = apart.transpose(0, 1, 2, 4, 6, 3, 5)
    else:
        apart = panels.reshape(2, form.panels, -1, products.inputs // 4, TOGETHER, lanes, 4)
        whole = apart.transpose(0, 1, 3, 6, 2, 4, 5)
    whole = whole.reshape(2, form.panels, products.inputs, columns)
    assert not whole[:, :, form.hidden :].any()
    sums = whole.astype(int).sum(2).reshape(2, form.width)
    np.testing.assert_array_equal(constants[:, 1], sums)
    more = constants[:, 2].reshape(2, form.panels, 1, columns) if weights == "int16" else 0
    np.testing.assert_array_equal((whole[:, :, : form.hidden] + more).ravel(), flat)
