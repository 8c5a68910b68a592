"""Time single operators without a record, by rule, beside ONNX Runtime.

python benchmarks/operators.py [OPERATOR …] [--cpu x86-64-v4] [--threads 1]

Each is alone in a network, in the layout of its file; networks with convolutions run most of them with channels last.
Each is checked, and both are timed in turns in one process; the best time counts, because disturbances only make it
slower. Prints a table in Markdown, the slowest first. Needs an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from products import compile_by_rule, open_onnxruntime
from turns import time_in_turns

from tvmbuild.base.host_cpu import cpu_name

ROUNDS, CALLS = 8, 10
PICTURE = (1, 64, 80, 80)
SMALL = (1, 64, 40, 40)
OPSET = 18
FUNCTIONS = (
    "Abs", "Acos", "Asin", "Atan", "Ceil", "Celu", "Cos", "Elu", "Erf",
    "Exp", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Reciprocal", "Relu",
    "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
)  # fmt: skip
AXES = {"the last axis": [-1], "channels": [1], "pixels": [2, 3], "all axes": [0, 1, 2, 3]}


@dataclass(frozen=True)
class Form:
    """One operator: the shapes of its inputs, its constants by the places of inputs, and its attributes."""

    operator: str
    shapes: tuple[tuple[int, ...], ...] = (PICTURE,)
    constants: Mapping[int, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = OPSET


def list_forms() -> Iterator[tuple[str, Form]]:
    """Yield each form with its name."""
    yield from _list_functions()
    yield from _list_reductions()
    yield from _list_windows()
    yield from _list_moves()


def _list_functions() -> Iterator[tuple[str, Form]]:
    for operator in FUNCTIONS:
        yield operator, Form(operator, opset=20)
    yield "Clip to 0, 6", Form("Clip", constants={1: np.float32(0), 2: np.float32(6)})
    yield "Pow of two tensors", Form("Pow", (PICTURE, PICTURE))
    yield "Pow 2.5", Form("Pow", constants={1: np.float32(2.5)})
    yield "Add of two tensors", Form("Add", (PICTURE, PICTURE))


def _list_reductions() -> Iterator[tuple[str, Form]]:
    for operator in REDUCTIONS:
        for name, axes in AXES.items():
            yield f"{operator} of {name}", Form(operator, constants={1: np.array(axes)})
    for name, axis in {"the last axis": -1, "channels": 1, "rows": 2}.items():
        for operator in ("Softmax", "LogSoftmax"):
            yield f"{operator} of {name}", Form(operator, attributes={"axis": axis})
        yield f"CumSum along {name}", Form("CumSum", constants={1: np.array(axis)})
    weights = {1: np.ones(64, np.float32), 2: np.zeros(64, np.float32)}
    yield "InstanceNormalization", Form("InstanceNormalization", constants=weights)
    yield "GroupNormalization", Form("GroupNormalization", constants=weights, attributes={"num_groups": 8}, opset=21)


def _list_windows() -> Iterator[tuple[str, Form]]:
    for window, stride in ((2, 2), (3, 2), (5, 1)):
        pads = [(window - 1) // 2] * 4
        chosen = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": pads}
        for operator in ("MaxPool", "AveragePool"):
            yield f"{operator} {window} x {window}, stride {stride}", Form(operator, attributes=chosen)
    for mode in ("nearest", "linear", "cubic"):
        scales = np.array([1, 1, 2, 2], np.float32)
        yield f"Resize {mode} by 2", Form("Resize", (SMALL,), {2: scales}, {"mode": mode})
    sampled = ((1, 64, 40, 40), (1, 80, 80, 2))
    yield "GridSample", Form("GridSample", sampled, attributes={"mode": "bilinear"}, opset=16)


def _list_moves() -> Iterator[tuple[str, Form]]:
    for order in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)):
        yield f"Transpose {order}", Form("Transpose", attributes={"perm": order})
    for mode in ("constant", "reflect", "edge"):
        yield f"Pad {mode}", Form("Pad", constants={1: np.array([0, 0, 2, 2, 0, 0, 2, 2])}, attributes={"mode": mode})
    yield "Concat of channels", Form("Concat", (PICTURE, PICTURE), attributes={"axis": 1})
    yield "Tile 2 x 2", Form("Tile", (SMALL,), {1: np.array([1, 1, 2, 2])})
    yield "DepthToSpace", Form("DepthToSpace", attributes={"blocksize": 2})
    rows = np.random.default_rng(0).integers(0, 1000, 256)
    yield "Gather of rows", Form("Gather", ((1000, 384),), {1: rows}, {"axis": 0})


def write_model(form: Form) -> bytes:
    """Return the network of one operator."""
    given = [f"x{place}" for place in range(len(form.shapes))]
    free = iter(given)
    count = 1 + max([*form.constants, len(given) - 1])
    names = [f"c{place}" if place in form.constants else next(free, "") for place in range(count)]
    inputs = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in zip(given, form.shapes, strict=True)
    ]
    constants = [numpy_helper.from_array(np.asarray(value), f"c{place}") for place, value in form.constants.items()]
    node = helper.make_node(form.operator, names, ["y"], **form.attributes)
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "operator", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", form.opset)], ir_version=9)
    return bytes(onnx.shape_inference.infer_shapes(model, data_prop=True).SerializeToString())


def measure(form: Form, cpu: str, threads: int) -> tuple[float, float]:
    """Return the best seconds by rule and by ONNX Runtime. Raises ValueError if numbers differ."""
    random, model = np.random.default_rng(0), write_model(form)
    inputs = {f"x{place}": random.random(shape, np.float32) for place, shape in enumerate(form.shapes)}
    with tempfile.TemporaryDirectory() as folder:
        session = compile_by_rule(model, Path(folder), cpu, threads)
    theirs = open_onnxruntime(model, threads)
    if not np.allclose(session.run(inputs)["y"], theirs.run(None, inputs)[0], rtol=1e-4, atol=1e-4):
        raise ValueError("wrong numbers")
    calls: dict[str, Callable[[], object]] = {"ours": session.bind(inputs), "theirs": partial(theirs.run, None, inputs)}
    taken = time_in_turns(calls, ROUNDS, CALLS)
    ours, others = (min(min(each) for each in taken[name].ms) / 1e3 for name in calls)
    return ours, others


def choose(words: Sequence[str]) -> dict[str, Form]:
    """Return the forms whose names contain one of the words, or all."""
    return {name: form for name, form in list_forms() if not words or any(word in name for word in words)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--cpu", default="x86-64-v4")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    os.environ |= {"TVM_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    rows = []
    for name, form in choose(args.operators).items():
        try:
            ours, theirs = measure(form, args.cpu, args.threads)
        except ValueError as error:
            sys.exit(f"{name}: {error}")
        rows.append((ours / theirs, f"| {name} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | {ours / theirs:.2f} |"))
        print(name, file=sys.stderr)
    print(f"{args.cpu}, {args.threads} threads, {cpu_name()}, {time.strftime('%Y-%m-%d')}\n")
    print("| operator | by rule, µs | ONNX Runtime, µs | ratio |\n|---|---|---|---|")
    print("\n".join(line for _, line in sorted(rows, reverse=True)))
    print(f"\ngeometric mean over ONNX Runtime: {statistics.geometric_mean(ratio for ratio, _ in rows):.3f}")


if __name__ == "__main__":
    main()
