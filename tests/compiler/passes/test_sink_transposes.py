"""Transposes between NHWC and NCHW move until they cancel: the number of remaining Tasks, and the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.passes.sink_transposes import _match_extents
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.tasks import extract_tasks

SaveModel = Callable[..., Path]
RANDOM = np.random.RandomState(5)
SHAPE = (1, 3, 8, 10)


def draw(*shape: int) -> np.ndarray:
    values: np.ndarray = RANDOM.uniform(-1, 1, shape).astype("float32")
    return values


def integers(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def check(path: Path, target: tvm.target.Target) -> list[str]:
    """Build, compare with ONNX Runtime, and return the names of the Tasks."""
    lowered: Lowered = lower(import_onnx(path), target)
    applied = apply_records(lowered, target, ms.database.MemoryDatabase())
    machine = relax.VirtualMachine(build_executable(applied.mod, target), tvm.cpu())
    data = draw(*SHAPE)
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    got = machine["main"](tvm.runtime.tensor(data)).numpy()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    return [task.name for task in extract_tasks(lowered)]


WEIGHTS = {"w": draw(8, 3, 1, 1), "v": draw(4, 4, 1, 1), "u": draw(8, 8, 1, 1)}


@pytest.mark.compiler
def test_a_channel_shuffle_stays_in_the_convolutions_layout(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    constants = {"five": integers(1, 2, 4, 8, 10), "four": integers(1, 8, 8, 10), "half": integers(4, 4)}
    nodes = [
        node("Conv", "x w", "a"),
        node("Split", "a half", "left right", axis=1),
        node("Conv", "right v", "b"),
        node("Concat", "left b", "c", axis=1),
        node("Reshape", "c five", "d"),
        node("Transpose", "d", "e", perm=[0, 2, 1, 3, 4]),
        node("Reshape", "e four", "f"),
        node("Split", "f half", "g h", axis=1),
        node("Conv", "h v", "i"),
        node("Concat", "i g", "y", axis=1),
    ]
    names = check(save_model(nodes, WEIGHTS | constants, SHAPE), cpu)
    # The transposes of the input and the output remain: the model itself is NCHW.
    assert sum(name.count("transpose") for name in names) == 2, names
    assert [name for name in names if name.startswith("concatenate_reshape_transpose_reshape")], names


@pytest.mark.compiler
@pytest.mark.parametrize("function", ["Sin", "Cos", "Floor", "Sign", "LeakyRelu", "Atan"])
def test_functions_between_reshapes_stay_in_the_convolutions_layout(
    save_model: SaveModel, cpu: tvm.target.Target, function: str
) -> None:
    """Snake, x + sin²(a · x) / a, is an example: codecs for audio have it between reshapes."""
    nodes = [
        node("Conv", "x w", "c"),
        node("Reshape", "c flat", "f"),
        node("Mul", "f scale", "scaled"),
        node(function, "scaled", "made"),
        node("Pow", "made two", "squares"),
        node("Add", "f squares", "sum"),
        node("Reshape", "sum picture", "back"),
        node("Conv", "back u", "y"),
    ]
    weights = {"w": WEIGHTS["w"], "u": WEIGHTS["u"], "flat": integers(1, 8, 80), "picture": integers(1, 8, 8, 10)}
    weights |= {"scale": draw(1, 8, 1), "two": np.array(2, "float32")}
    path = save_model(nodes, weights, SHAPE)
    names = check(path, cpu)
    assert [name for name in names if "transpose" in name] == ["transpose"], names  # of the output, which is NCHW


@pytest.mark.compiler
@pytest.mark.parametrize("pool", ["MaxPool", "AveragePool", "GlobalAveragePool"])
def test_pooling_stays_in_the_convolutions_layout(save_model: SaveModel, cpu: tvm.target.Target, pool: str) -> None:
    """TVM's ConvertLayout returns to NCHW for a bias without spatial dimensions, as in mnist."""
    sizes = {} if pool.startswith("Global") else {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", "x w", "a"),
        node("Add", "a bias", "b"),
        node("Relu", "b", "c"),
        node(pool, "c", "d", **sizes),
        node("Conv", "d u", "y"),
    ]
    names = check(save_model(nodes, WEIGHTS | {"bias": draw(8, 1, 1)}, SHAPE), cpu)
    assert sum(name.count("transpose") for name in names) <= 2, names  # the model's input and output


@pytest.mark.compiler
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_resizing_behind_a_reshape_stays_in_it(save_model: SaveModel, cpu: tvm.target.Target, mode: str) -> None:
    """Tokens of a transformer become a picture, are resized, and meet a convolution, as in SegFormer's head."""
    nodes = [
        node("Conv", "x w", "a"),
        node("Reshape", "a rows", "b"),
        node("Transpose", "b", "tokens", perm=[0, 2, 1]),
        node("MatMul", "tokens m", "c"),
        node("Transpose", "c", "d", perm=[0, 2, 1]),
        node("Reshape", "d picture", "e"),
        node("Resize", "e none none sizes", "f", mode=mode, keep_aspect_ratio_policy="stretch"),
        node("Concat", "f f", "g", axis=1),
        node("Conv", "g s", "y"),
    ]
    constants = {
        "rows": integers(1, 8, 80),
        "picture": integers(1, 40, 8, 10),
        "none": np.zeros(0, "float32"),
        "sizes": integers(1, 40, 16, 20),
        "m": draw(8, 40),
        "s": draw(4, 80, 1, 1),
    }
    names = check(save_model(nodes, WEIGHTS | constants, SHAPE, opset=18), cpu)
    assert sum(name.count("transpose") for name in names) <= 2, names  # the model's input and output
    assert any("resize2d" in name for name in names)


@pytest.mark.compiler
def test_data_that_are_rounded_as_they_come_stay_in_it(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    """uint8 weights with a zero point other than 128 also need sums of the data over channels."""
    nodes, weights, data = [], {"z": np.uint8(117), "s": np.float32(0.01)}, "x"
    for name, channels in (("p", 3), ("q", 8), ("r", 8)):
        weights[name] = RANDOM.randint(0, 256, (8, channels, 3, 3)).astype("uint8")
        nodes += [
            node("DynamicQuantizeLinear", data, f"{name}d {name}s {name}z"),
            node("ConvInteger", f"{name}d {name} {name}z z", f"{name}i", pads=[1, 1, 1, 1]),
            node("Cast", f"{name}i", f"{name}f", to=onnx.TensorProto.FLOAT),
            node("Mul", f"{name}s s", f"{name}b"),
            node("Mul", f"{name}f {name}b", f"{name}y"),
        ]
        data = f"{name}y"
    nodes[-1].output[0] = "y"
    tasks = check(save_model(nodes, weights, SHAPE), cpu)
    found = [task for task in tasks if "transpose" in task]
    assert len(found) <= 3, found  # of the input, of the sums over its channels, and of the output


@pytest.mark.sampled(8)
@pytest.mark.compiler
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin", "ReduceSum"])
@pytest.mark.parametrize("axes", [None, [1], [-1], [2, 3]])
@pytest.mark.parametrize("keeps", [0, 1])
def test_reductions_after_a_convolution_are_of_the_same_axes(
    save_model: SaveModel, cpu: tvm.target.Target, kind: str, axes: list[int] | None, keeps: int
) -> None:
    reduction = node(kind, "b", "r", keepdims=keeps, **({} if axes is None or kind == "ReduceSum" else {"axes": axes}))
    constants = {} if axes is None or kind != "ReduceSum" else {"axes": integers(*axes)}
    if constants:
        reduction.input.append("axes")
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "b"), reduction, node("Abs", "r", "y")]
    check(save_model(nodes, {**WEIGHTS, **constants}, SHAPE, opset=13), cpu)


@pytest.mark.compiler
def test_a_detectors_head_needs_no_transpose(save_model: SaveModel, cpu: tvm.target.Target) -> None:
    nodes = [
        node("Conv", "x w", "a"),
        node("Conv", "a u", "b"),
        node("Sigmoid", "b", "c"),
        node("Concat", "a c", "d", axis=1),
        node("Reshape", "d three", "e"),
        node("Transpose", "e", "y", perm=[0, 2, 1]),
    ]
    names = check(save_model(nodes, WEIGHTS | {"three": integers(1, 16, 80)}, SHAPE), cpu)
    assert not [name for name in names if "transpose" in name], names


@pytest.mark.sampled(8)
@pytest.mark.compiler
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 8, 80), None),
        ((8, 80), (1, 0)),
        ((1, 4, 2, 80), (0, 2, 1, 3)),
        ((2, 4, 8, 10), (1, 0, 3, 2)),
        ((1, 8, 2, 4, 5, 2), (0, 3, 5, 1, 2, 4)),
        ((640,), None),
        ((1, 16, 40), (0, 2, 1)),
        ((1, 1, 8, 80, 1), (4, 0, 3, 1, 2)),
    ],
)
@pytest.mark.parametrize("after", ["Relu", "Add", "Mul"])
def test_reshapes_of_all_kinds_stay_right(
    shape: tuple[int, ...], axes: tuple[int, ...] | None, after: str, save_model: SaveModel, cpu: tvm.target.Target
) -> None:
    operand = draw(*shape[-2:-1], 1) if len(shape) > 1 else draw(1)
    nodes = [
        node("Conv", "x w", "a"),
        node("Reshape", "a s", "b"),
        node("Transpose", "b", "c", perm=list(axes)) if axes else node("Identity", "b", "c"),
        node(after, "b" if after == "Relu" else "b o", "d"),
        node("Transpose", "d", "e", perm=list(axes)) if axes else node("Identity", "d", "e"),
        node("Sub", "e c", "y"),
    ]
    check(
        save_model(nodes, WEIGHTS | {"s": integers(*shape), "o": operand}, SHAPE),
        cpu,
    )


@pytest.mark.parametrize(
    ("old", "new", "groups"),
    [
        ((1, 8, 4, 5), (1, 8, 20), [((0,), (0,)), ((1,), (1,)), ((2, 3), (2,))]),
        ((1, 8, 20), (1, 2, 4, 20), [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]),
        ((6, 4), (4, 6), [((0, 1), (0, 1))]),
        ((2, 3, 1), (6,), [((0, 1, 2), (0,))]),
        ((6,), (2, 3, 1, 1), [((0,), (0, 1, 2, 3))]),
        ((), (1,), None),
    ],
)
def test_axes_are_matched_in_the_smallest_groups(old: tuple[int, ...], new: tuple[int, ...], groups: Any) -> None:
    assert _match_extents(old, new) == groups
