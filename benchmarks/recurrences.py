"""Time LSTM and GRU layers: as one kernel, step by step, and ONNX Runtime, by rule, on one thread.

python benchmarks/recurrences.py [--cpu x86-64-v3] [--rounds 20] [--quantised]

One process times all three in turns, without a record; "step by step" is the way of networks with more sequences, other
activations or larger weights. Prints microseconds a step and direction, and ratios to ONNX Runtime's.
`--quantised` times LSTMs with weights of int8, as ONNX Runtime's ``quantize_dynamic`` makes them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["TVM_NUM_THREADS"] = "1"  # before TVM is imported

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic
from turns import time_in_turns
from tvm import relax
from tvm.s_tir.meta_schedule.database import MemoryDatabase

from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.importing import importer
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.pipeline import lower

LAYERS = (("GRU", 60, 32), ("GRU", 60, 64), ("GRU", 60, 128), ("LSTM", 60, 32), ("LSTM", 60, 128), ("LSTM", 60, 256))
"""(operator, steps, hidden units)."""
QUANTISED = tuple(("LSTM", 60, hidden) for hidden in (32, 64, 128, 256))
GATES = {"GRU": 3, "LSTM": 4}
INPUTS = 64


def main() -> int:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quantised", action="store_true")
    args = parser.parse_args()
    print(
        "| layer | one kernel µs | step by step µs | ONNX Runtime µs | kernel / ONNX Runtime |\n|---|---|---|---|---|"
    )
    ratios = []
    for kind, steps, hidden in QUANTISED if args.quantised else LAYERS:
        layer = make_layer(kind, steps, hidden)
        times = time_layer(quantise(layer) if args.quantised else layer, args.cpu, args.rounds)
        ratios.append(times["kernel"] / times["onnxruntime"])
        each = [f"{1000 * times[name] / steps:.2f}" for name in ("kernel", "steps", "onnxruntime")]
        print(f"| {kind}, {hidden} | {' | '.join(each)} | {ratios[-1]:.2f} |", flush=True)
    print(f"| geometric mean | | | | {geometric_mean(ratios):.2f} |")
    return 0


def make_layer(kind: str, steps: int, hidden: int, batch: int = 1) -> onnx.ModelProto:
    """Return x → y of one direction, as PyTorch exports it, with random weights."""
    random, rows = np.random.default_rng(0), GATES[kind] * hidden
    shapes = {"w": (1, rows, INPUTS), "r": (1, rows, hidden), "b": (1, 2 * rows)}
    weights = {name: (random.uniform(-1, 1, shape) / hidden**0.5).astype("float32") for name, shape in shapes.items()}
    attributes = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=hidden, **attributes)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, batch, INPUTS))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (steps, 1, batch, hidden))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def quantise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the layer with weights of int8."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "layer.onnx", Path(folder) / "quantised.onnx"
        onnx.save(model, source)
        quantize_dynamic(source, target, op_types_to_quantize=["LSTM"])
        return onnx.load(target)


def time_layer(model: onnx.ModelProto, cpu: str | None, rounds: int) -> Mapping[str, float]:
    """Return the median time of each way in ms, after a comparison of their numbers."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    data = {"x": np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)}
    target = host_target(cpu, threads=1)

    def build() -> Callable[[], Any]:
        lowered = lower(importer.import_model(model, "layer"), target)
        applied = apply_records(lowered, target, MemoryDatabase())
        machine, tensor = (
            relax.VirtualMachine(build_executable(applied.mod, target).jit(), tvm.cpu()),
            tvm.runtime.tensor,
        )
        inputs, run = tensor(data["x"]), machine["main"]
        return lambda: run(inputs)

    with mock.patch.object(importer, "CPU_RULES", {}):
        by_steps = build()
    calls: dict[str, Callable[[], Any]] = {
        "kernel": build(),
        "steps": by_steps,
        "onnxruntime": lambda: session.run(None, data),
    }
    (want,) = session.run(None, data)
    is_rounded = any(node.op_type.startswith("Dynamic") for node in model.graph.node)
    for compute in (calls["kernel"], by_steps):
        np.testing.assert_allclose(compute().numpy(), want, rtol=1e-4, atol=1e-2 if is_rounded else 1e-5)
    return {name: float(np.median(samples.ms)) for name, samples in time_in_turns(calls, rounds, 5).items()}


if __name__ == "__main__":
    sys.exit(main())
