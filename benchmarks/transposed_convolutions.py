"""Time transposed convolutions of one layer, by rule, and ONNX Runtime: the ratio of their latencies.

python benchmarks/transposed_convolutions.py [--cpu x86-64-v3] [--threads 2] [--rounds 20]

One process times both in turns, without a record, and a layer's input and output are NCHW: the transposes at both ends
count. Prints milliseconds and ratios to ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from turns import time_in_turns

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.session import Session

SAME: dict[str, Any] = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
TWICE: dict[str, Any] = {**SAME, "output_padding": [1, 1]}


@dataclass(frozen=True)
class Layer:
    """A transposed convolution with a bias; the shape of its weights is inputs x channels of a group x kernel."""

    size: int
    weights: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=lambda: dict(SAME))

    @property
    def name(self) -> str:
        """Return the layer's name in the table."""
        inputs, own, kernel, _ = self.weights
        groups, (stride, _) = self.attributes.get("group", 1), self.attributes.get("strides", (1, 1))
        grouped = f", {groups} groups" if groups > 1 else ""
        return f"{inputs} to {own * groups}{grouped}, {kernel} x {kernel}, stride {stride}"


LAYERS = (
    Layer(32, (64, 32, 4, 4)),
    Layer(16, (256, 128, 4, 4)),
    Layer(32, (64, 64, 3, 3), TWICE),
    Layer(32, (64, 16, 3, 3), {**TWICE, "group": 4}),
    Layer(32, (64, 1, 3, 3), {**TWICE, "group": 64}),
    Layer(32, (32, 16, 5, 5), {**TWICE, "pads": [2, 2, 2, 2]}),
    Layer(32, (64, 32, 2, 2), {"strides": [2, 2]}),
    Layer(32, (64, 64, 3, 3), {"pads": [1, 1, 1, 1]}),
    Layer(64, (64, 3, 4, 4)),
)


def main() -> int:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    print("| layer | tvmbuild ms | ONNX Runtime ms | ratio |\n|---|---|---|---|")
    ratios = []
    for layer in LAYERS:
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs, ratio = time_layer(layer, args, Path(folder, "layer.tar"))
        ratios.append(ratio)
        print(f"| {layer.name} | {ours:.3f} | {theirs:.3f} | {ratio:.2f} |", flush=True)
    print(f"| geometric mean | | | {geometric_mean(ratios):.2f} |")
    return 0


def make_layer(layer: Layer) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return x → y with random weights, and an input."""
    random = np.random.default_rng(0)
    channels = layer.weights[1] * layer.attributes.get("group", 1)
    shape = (1, layer.weights[0], layer.size, layer.size)
    weights = {"w": layer.weights, "b": (channels,)}
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", *weights], ["y"], **layer.attributes)],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(random.uniform(-1, 1, size).astype(np.float32), name)
            for name, size in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": random.uniform(-1, 1, shape).astype(np.float32)}


def time_layer(layer: Layer, args: argparse.Namespace, package: Path) -> tuple[float, float, float]:
    """Return the medians of both in ms, and of the ratios of each round, after a comparison of their numbers."""
    model, data = make_layer(layer)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    cpu = str(host_target(args.cpu).attrs["mcpu"])
    target = PackageTarget("bench", "llvm", FrozenMap({"mcpu": cpu, "num-cores": args.threads}))
    with contextlib.redirect_stdout(sys.stderr):
        write_package(package, build_package(model.SerializeToString(), target, options=BuildOptions("layer")))
    with Session(package, threads=args.threads) as ours:
        (want,) = theirs.run(None, data)
        np.testing.assert_allclose(ours.run(data)["y"], want, rtol=1e-3, atol=1e-3)
        calls = {"ours": ours.bind(data), "theirs": lambda: theirs.run(None, data)}
        taken = {name: np.array(samples.ms) for name, samples in time_in_turns(calls, args.rounds, 5).items()}
    of_rounds = {name: np.median(rounds, axis=1) for name, rounds in taken.items()}
    medians = [float(np.median(of_rounds[name])) for name in ("ours", "theirs")]
    return (medians[0], medians[1], float(np.median(of_rounds["ours"] / of_rounds["theirs"])))


if __name__ == "__main__":
    sys.exit(main())
