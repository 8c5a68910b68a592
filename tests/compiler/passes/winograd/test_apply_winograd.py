from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_files import find_network
from onnx import helper
from tvm import relax, s_tir, tirx
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.convolution_times import fastest, find_tasks, sum_times, time_reading
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.limits import USUAL_CPU
from tvmbuild.compiler.passes.winograd import attach_epilogues
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.schedules.cpu.rules import list_schedules
from tvmbuild.compiler.tasks import Task, extract_tasks

pytestmark = pytest.mark.compiler

ALGORITHMS = ["winograd2", "winograd4"]
TOLERANCE = {"winograd2": 1e-5, "winograd4": 5e-5}
"""The largest allowed error against float64, relative to the largest output; within it the gain in speed is honest."""

SHAPES = {
    "even": ((1, 16, 16, 12), 32, [1, 1, 1, 1]),
    "odd": ((1, 16, 13, 9), 16, [1, 1, 1, 1]),
    "no padding": ((1, 16, 13, 13), 24, [0, 0, 0, 0]),
    "asymmetric padding": ((1, 20, 10, 11), 16, [0, 1, 1, 0]),
    "much padding": ((1, 16, 5, 5), 16, [2, 3, 1, 2]),
    "two images": ((2, 24, 7, 6), 40, [1, 1, 1, 1]),
    "channels that fill no vector": ((1, 16, 9, 9), 20, [1, 1, 1, 1]),
    "inputs that fill no vector": ((1, 19, 9, 9), 16, [1, 1, 1, 1]),
    "many channels": ((1, 128, 13, 13), 128, [1, 1, 1, 1]),
}


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    values: np.ndarray = np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")
    return values


def conv(weights: str = "w", pads: Sequence[int] = (1, 1, 1, 1), **attributes: Any) -> onnx.NodeProto:
    inputs = attributes.pop("inputs", ["x", weights])
    outputs = attributes.pop("outputs", ["y"])
    return helper.make_node("Conv", inputs, outputs, pads=list(pads), **attributes)


def lower_all(path: Path, target: tvm.target.Target, algorithm: str) -> Lowered:
    imported = import_onnx(path)
    direct = lower(imported, target)
    return lower(imported, target, None, {each.convolution.signature: algorithm for each in direct.convolutions})


def run(lowered: Lowered, target: tvm.target.Target, data: np.ndarray, database: Any = None) -> np.ndarray:
    applied = apply_records(lowered, target, database or ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, target), tvm.cpu())
    result: np.ndarray = machine["main"](tvm.runtime.tensor(data)).numpy()
    return result


def expect(path: Path, data: np.ndarray) -> np.ndarray:
    result: np.ndarray = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    return result


def names(lowered: Lowered) -> list[str]:
    return [task.name for task in extract_tasks(lowered)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("case", SHAPES)
def test_a_convolution_is_the_same_by_either(
    case: str, algorithm: str, save_model: Callable[..., Path], cpu: tvm.target.Target
) -> None:
    shape, channels, pads = SHAPES[case]
    path = save_model([conv(pads=pads)], {"w": draw(channels, shape[1], 3, 3, seed=1)}, shape)
    data = draw(*shape)
    lowered = lower_all(path, cpu, algorithm)
    three, one = ["winograd_input", "winograd_products", "winograd_inverse"], ["winograd_rows"]
    assert [name for name in names(lowered) if name != "transpose"] in (three, one), names(lowered)
    got, want = run(lowered, cpu, data), expect(path, data)
    assert got.shape == want.shape
    assert np.max(np.abs(got - want)) <= TOLERANCE[algorithm] * np.max(np.abs(want))


EPILOGUES: dict[str, tuple[list[onnx.NodeProto], list[str]]] = {
    "bias and relu": (
        [conv(inputs=["x", "w", "b"], outputs=["a"]), helper.make_node("Relu", ["a"], ["y"])],
        ["winograd_inverse_add_relu"],
    ),
    "leaky relu": (
        [conv(outputs=["a"]), helper.make_node("LeakyRelu", ["a"], ["y"], alpha=0.1)],
        ["winograd_inverse_multiply_maximum"],
    ),
    "residual": (
        [conv(outputs=["a"]), helper.make_node("Add", ["a", "x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])],
        ["winograd_inverse_add_relu"],
    ),
    "silu": (
        [
            conv(inputs=["x", "w", "b"], outputs=["a"]),
            helper.make_node("Sigmoid", ["a"], ["s"]),
            helper.make_node("Mul", ["a", "s"], ["y"]),
        ],
        ["winograd_inverse_add_tir_sigmoid_multiply"],
    ),
    "one after the other": (
        [conv(outputs=["a"]), helper.make_node("Relu", ["a"], ["r"]), conv(inputs=["r", "w"])],
        ["winograd_inverse_relu", "winograd_inverse"],
    ),
    "read twice": (
        [
            conv(outputs=["a"]),
            helper.make_node("Relu", ["a"], ["r"]),
            helper.make_node("Concat", ["a", "r"], ["y"], axis=1),
        ],
        ["winograd_inverse"],
    ),
    "pooled": (
        [
            conv(outputs=["a"]),
            helper.make_node("Relu", ["a"], ["r"]),
            helper.make_node("MaxPool", ["r"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
        ],
        ["winograd_inverse_relu"],
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("case", EPILOGUES)
def test_what_follows_is_done_to_the_tiles(
    case: str, algorithm: str, save_model: Callable[..., Path], cpu: tvm.target.Target
) -> None:
    nodes, inverses = EPILOGUES[case]
    shape = (1, 16, 11, 13)
    path = save_model(nodes, {"w": draw(16, 16, 3, 3, seed=1), "b": draw(16, seed=2)}, shape)
    lowered = lower_all(path, cpu, algorithm)
    last = [name for name in names(lowered) if name.startswith(("winograd_inverse", "winograd_rows"))]
    assert [name.replace("rows", "inverse") for name in last] == inverses
    data = draw(*shape)
    np.testing.assert_allclose(run(lowered, cpu, data), expect(path, data), rtol=1e-3, atol=1e-3)


UNARY: dict[str, dict[str, float]] = {
    **{kind: {} for kind in ("Abs", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "Neg")},
    **{kind: {} for kind in ("Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Tanh")},
    "Elu": {"alpha": 0.7},
    "LeakyRelu": {"alpha": 0.1},
    "ThresholdedRelu": {"alpha": 0.2},
}
"""The elementwise operators of one input, with their attributes."""
CONSTANTS = {
    "w": draw(16, 16, 3, 3, seed=1) / 12,
    "s": np.full((16, 1, 1), 0.3, np.float32),
    "v": np.full(16, 1.1, np.float32),
}
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


@st.composite
def draw_residuals(draw: st.DrawFn) -> list[onnx.NodeProto]:
    """Draw x → Relu(Conv(x)) = t → f(t) joined with Conv(t); the operators of f stand before or after Conv(t)."""
    steps = [helper.make_node("Neg", ["t"], ["f0"])]
    for i in range(1, draw(st.integers(1, 4))):
        kind = draw(st.sampled_from([*UNARY, *BINARY, "BatchNormalization"]))
        operands = [f"f{i - 1}"]
        if kind in BINARY:
            operands.append(draw(st.sampled_from(["t", "s", f"f{max(i - 2, 0)}"])))
        elif kind == "BatchNormalization":
            operands += ["v", "v", "v", "v"]
        steps.append(helper.make_node(kind, operands, [f"f{i}"], **UNARY.get(kind, {})))
    second = [conv(inputs=["t", "w"], outputs=["c"])]
    branches = [*steps, *second] if draw(st.booleans()) else [*second, *steps]
    joint = helper.make_node(draw(st.sampled_from(BINARY)), draw(st.permutations(["c", f"f{len(steps) - 1}"])), ["j"])
    last = helper.make_node(draw(st.sampled_from(["Relu", "Sigmoid", "Neg"])), ["j"], ["y"])
    return [conv(outputs=["a"]), helper.make_node("Relu", ["a"], ["t"]), *branches, joint, last]


def check_residual(path: Path, algorithm: str, target: tvm.target.Target) -> None:
    lowered, data = lower_all(path, target, algorithm), draw(1, 16, 9, 10)
    assert lowered.notes == ()
    got, want = run(lowered, target, data), expect(path, data)
    steps = np.mean(np.abs(got - want) > 1e-3)  # Ceil, Floor, Round and Sign of almost equal numbers
    assert steps < 0.01, float(np.abs(got - want).max())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_residual_through_activations_is_computed_in_the_tiles(
    algorithm: str, save_model: Callable[..., Path], cpu: tvm.target.Target
) -> None:
    settle = settings(deadline=None, max_examples=4, suppress_health_check=list(HealthCheck), print_blob=True)

    @given(draw_residuals())
    @settle
    def check(nodes: list[onnx.NodeProto]) -> None:
        check_residual(save_model(nodes, CONSTANTS, (1, 16, 9, 10)), algorithm, cpu)

    check()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", UNARY)
def test_a_residual_through_each_operator(kind: str, save_model: Callable[..., Path], cpu: tvm.target.Target) -> None:
    steps = [helper.make_node(kind, ["t"], ["f"], **UNARY[kind]), helper.make_node("Mul", ["f", "t"], ["g"])]
    nodes = [
        conv(outputs=["a"]),
        helper.make_node("Relu", ["a"], ["t"]),
        *steps,
        conv(inputs=["t", "w"], outputs=["c"]),
    ]
    path = save_model([*nodes, helper.make_node("Add", ["g", "c"], ["y"])], CONSTANTS, (1, 16, 9, 10))
    check_residual(path, "winograd2", cpu)


def test_an_epilogue_that_cannot_be_moved_is_told(
    save_model: Callable[..., Path], cpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, _ = EPILOGUES["silu"]
    path, data = save_model(nodes, {"w": CONSTANTS["w"], "b": draw(16, seed=2)}, (1, 16, 9, 10)), draw(1, 16, 9, 10)

    def fail(_function: tirx.PrimFunc) -> tirx.PrimFunc:
        raise s_tir.ScheduleError("not of this form")

    monkeypatch.setattr(attach_epilogues, "_attach", fail)
    lowered = lower_all(path, cpu, "winograd2")
    (note,) = lowered.notes
    assert note.startswith("slow: what follows a Winograd convolution is a pass of its own: ")
    np.testing.assert_allclose(run(lowered, cpu, data), expect(path, data), rtol=1e-3, atol=1e-3)


OTHERS: dict[str, tuple[onnx.NodeProto, tuple[int, ...]]] = {
    "stride": (conv(strides=[2, 2]), (16, 16, 3, 3)),
    "dilation": (conv(dilations=[2, 2]), (16, 16, 3, 3)),
    "groups": (conv(group=2), (16, 8, 3, 3)),
    "pointwise": (conv(pads=[0, 0, 0, 0]), (16, 16, 1, 1)),
    "5x5": (conv(), (16, 16, 5, 5)),
    "few channels": (conv(), (8, 16, 3, 3)),
    "odd channels": (conv(), (17, 16, 3, 3)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_others_have_no_choice(case: str, save_model: Callable[..., Path], cpu: tvm.target.Target) -> None:
    node, weights = OTHERS[case]
    assert lower(import_onnx(save_model([node], {"w": draw(*weights)}, (1, 16, 9, 9))), cpu).convolutions == ()


def test_only_what_was_chosen_is_rewritten(save_model: Callable[..., Path], cpu: tvm.target.Target) -> None:
    nodes = [conv(outputs=["a"]), conv("v", inputs=["a", "v"])]
    path = save_model(nodes, {"w": draw(32, 16, 3, 3), "v": draw(16, 32, 3, 3)}, (1, 16, 9, 9))
    imported = import_onnx(path)
    direct = lower(imported, cpu)
    first, second = (each.convolution.signature for each in direct.convolutions)
    assert first == "1x9x9x16 to 32, padding 1 1 1 1"
    mixed = lower(imported, cpu, None, {first: "direct", second: "winograd2", "of another model": "winograd4"})
    assert [name for name in names(mixed) if "transpose" not in name] == ["conv2d", "winograd_rows"]
    same = lower(imported, cpu, None, {first: "direct"})
    assert [task.key for task in extract_tasks(same)] == [task.key for task in extract_tasks(direct)]


def test_the_tasks_of_each_convolution_are_found(save_model: Callable[..., Path], cpu: tvm.target.Target) -> None:
    nodes = [
        conv(outputs=["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        conv("v", inputs=["r", "v"], outputs=["b"]),
        conv("u", inputs=["b", "u"]),
    ]
    weights = {"w": draw(32, 16, 3, 3), "v": draw(32, 32, 3, 3, seed=1), "u": draw(32, 32, 3, 3, seed=2)}
    path = save_model(nodes, weights, (1, 16, 9, 9))
    for algorithm, each in (("direct", 1), ("winograd4", 3)):
        lowered = lower_all(path, cpu, algorithm)
        tasks = {task.key: task.name for task in extract_tasks(lowered)}
        found = find_tasks(lowered)
        assert [len(keys) for keys in found.values()] == [each, 2 * each]
        kind = "conv2d" if algorithm == "direct" else "winograd"
        assert all(tasks[key].startswith(kind) for keys in found.values() for key in keys)
        assert {key for key, name in tasks.items() if name.startswith(kind)} == {k for v in found.values() for k in v}


def test_a_search_can_schedule_every_task(
    save_convnet: Callable[..., Path], cpu: tvm.target.Target, sample_schedules: Callable[[Sequence[Task]], Any]
) -> None:
    path = save_convnet()
    lowered = lower_all(path, cpu, "winograd4")
    assert len([name for name in names(lowered) if "winograd" in name]) == 3
    data = draw(1, 3, 8, 8)
    got = run(lowered, cpu, data, sample_schedules(extract_tasks(lowered)))
    np.testing.assert_allclose(got, expect(path, data), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 64, 26, 26), (1, 16, 40, 40)])
def test_every_task_is_a_candidate_as_it_is(
    shape: tuple[int, int, int, int], save_model: Callable[..., Path], cpu: tvm.target.Target
) -> None:
    nodes = [conv(inputs=["x", "w", "b"], outputs=["a"]), helper.make_node("Relu", ["a"], ["y"])]
    path = save_model(nodes, {"w": draw(64, shape[1], 3, 3), "b": draw(64)}, shape)
    tasks = [task for task in extract_tasks(lower_all(path, cpu, "winograd4")) if "winograd" in task.name]
    assert tasks
    for task in tasks:
        (first, *_) = list_schedules(task.mod, cpu, 16)
        assert first.trace.insts, task.name  # an empty record would be ignored


def test_no_function_is_a_naive_nest(save_model: Callable[..., Path], cpu: tvm.target.Target) -> None:
    nodes = [conv(inputs=["x", "w", "b"], outputs=["a"]), helper.make_node("Relu", ["a"], ["y"])]
    path = save_model(nodes, {"w": draw(64, 64, 3, 3), "b": draw(64)}, (1, 64, 26, 26))
    applied = apply_records(lower_all(path, cpu, "winograd4"), cpu, ms.database.MemoryDatabase())
    functions = {
        variable.name_hint: function.script()
        for variable, function in applied.mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and "winograd" in variable.name_hint
    }
    assert len(functions) == 3
    for script in functions.values():
        assert "T.parallel" in script
        assert "T.vectorized" in script


@pytest.mark.compiler
def test_larger_weights_take_longer_to_read(save_model: Callable[..., Path], cpu: tvm.target.Target) -> None:
    path = save_model([helper.make_node("Conv", ["x", "w"], ["y"])], {"w": draw(64, 32, 3, 3)}, (1, 32, 10, 10))
    found = [time_reading(lower_all(path, cpu, algorithm)) for algorithm in ("direct", "winograd2", "winograd4")]
    (signature,) = found[0]
    read = [each[signature] * USUAL_CPU.reading for each in found]
    assert read == pytest.approx([4 * 64 * 32 * n for n in (9, 16, 36)])


def test_the_fastest_is_chosen_from_times() -> None:
    tasks: dict[str, dict[str, tuple[str, ...]]] = {
        "direct": {"a": ("1",), "b": ("2",), "c": ("3",)},
        "winograd2": {"a": ("4", "5", "6"), "b": ("4", "4", "4"), "c": ("7", "7", "7")},
        "winograd4": {"a": ("4", "5", "9"), "b": ("4", "5", "missing"), "c": ("7", "7", "4")},
    }
    seconds = {"1": 10.0, "2": 3.05, "4": 1.0, "5": 2.0, "6": 3.0, "7": 9.0, "9": 4.0}
    times = sum_times(tasks, seconds, ["a", "b", "c"])
    assert times["a"] == {"direct": 10.0, "winograd2": 6.0, "winograd4": 7.0}
    assert times["b"] == {"direct": 3.05, "winograd2": 3.0}
    assert [fastest(times[each]) for each in "abc"] == ["winograd2", "direct", None]


@pytest.mark.nightly
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_real_weights_keep_the_numeric_gate(algorithm: str, cpu: tvm.target.Target) -> None:
    path = find_network("yolov3_tiny")
    lowered = lower_all(path, cpu, algorithm)
    assert sum(name.startswith(("winograd_products", "winograd_rows")) for name in names(lowered)) == 7
    data = np.random.RandomState(0).uniform(0, 1, lowered.inputs[0].shape).astype("float32")
    got, want = run(lowered, cpu, data), expect_first(path, lowered.inputs[0].name, data)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def expect_first(path: Path, name: str, data: np.ndarray) -> np.ndarray:
    result: np.ndarray = onnxruntime.InferenceSession(str(path)).run(None, {name: data})[0]
    return result
