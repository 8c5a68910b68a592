"""Time norms, softmax and GELU without a record, by rule, beside ONNX Runtime; the length of a row must not matter.

python benchmarks/rows.py [--forms softmax layer-norm …] [--lengths 7 192 197 …] [--cpu x86-64-v4] [--threads 1]

Each works on half a million numbers in rows of each length. Each is checked, and both are timed in turns in one
process; the best time counts, because disturbances only make it slower. Prints a table in Markdown: GB/s of one read
and one write, the time over ONNX Runtime's. Needs an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from products import compile_by_rule, open_onnxruntime
from turns import time_in_turns

from tvmbuild.base.host_cpu import cpu_name

NUMBERS = 500_000
LENGTHS = (16, 192, 197, 384, 500, 1000, 1001, 50257)
ROUNDS, CALLS = 8, 25
CONSTANTS = {
    "last": np.array([-1]),
    "middle": np.array([1]),
    "two": np.array(2, "float32"),
    "three": np.array(3, "float32"),
    "one": np.array(1, "float32"),
    "half": np.array(0.5, "float32"),
    "small": np.array(1e-5, "float32"),
    "root": np.array(0.5**0.5, "float32"),
    "cubic": np.array(0.044715, "float32"),
    "slope": np.array((2 / np.pi) ** 0.5, "float32"),
}
Nodes = Sequence[onnx.NodeProto]


def node(kind: str, *inputs: str, out: str = "y", **attributes: object) -> onnx.NodeProto:
    """Return a node of one output."""
    return helper.make_node(kind, list(inputs), [out], **attributes)


def spell_norm(axis: str) -> Nodes:
    """Return a layer norm as exporters spell it."""
    return (
        node("ReduceMean", "x", axis, out="mean"),
        node("Sub", "x", "mean", out="centred"),
        node("Pow", "centred", "two", out="squares"),
        node("ReduceMean", "squares", axis, out="variance"),
        node("Add", "variance", "small", out="more"),
        node("Sqrt", "more", out="deviation"),
        node("Div", "centred", "deviation"),
    )


FORMS: Mapping[str, Nodes] = {
    "softmax": (node("Softmax", "x", axis=-1),),
    "softmax of the axis before": (node("Softmax", "x", axis=1),),
    "log-softmax": (node("LogSoftmax", "x", axis=-1),),
    "log-sum-exp": (node("ReduceLogSumExp", "x", "last"),),
    "layer norm": (node("LayerNormalization", "x", "g", "b", axis=-1),),
    "layer norm of a sum": (node("Add", "x", "x", out="s"), node("LayerNormalization", "s", "g", "b", axis=-1)),
    "layer norm, spelled": spell_norm("last"),
    "of the axis before, spelled": spell_norm("middle"),
    "RMS norm, spelled": (
        node("Mul", "x", "x", out="squares"),
        node("ReduceMean", "squares", "last", out="mean"),
        node("Add", "mean", "small", out="more"),
        node("Sqrt", "more", out="deviation"),
        node("Div", "x", "deviation", out="normal"),
        node("Mul", "normal", "g"),
    ),
    "length one": (node("ReduceL2", "x", "last", out="norm"), node("Div", "x", "norm")),
    "mean": (node("ReduceMean", "x", "last"),),
    "GELU": (
        node("Mul", "x", "root", out="narrow"),
        node("Erf", "narrow", out="erf"),
        node("Add", "erf", "one", out="more"),
        node("Mul", "x", "more", out="twice"),
        node("Mul", "twice", "half"),
    ),
    "GELU by tanh": (
        node("Pow", "x", "three", out="cube"),
        node("Mul", "cube", "cubic", out="little"),
        node("Add", "x", "little", out="bent"),
        node("Mul", "bent", "slope", out="steep"),
        node("Tanh", "steep", out="tanh"),
        node("Add", "tanh", "one", out="more"),
        node("Mul", "x", "more", out="twice"),
        node("Mul", "twice", "half"),
    ),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", choices=FORMS, nargs="+", default=list(FORMS), metavar="FORM")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--cpu", default="x86-64-v4")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    os.environ |= {"TVM_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    print(f"{args.cpu}, {args.threads} threads, {cpu_name()}, {time.strftime('%Y-%m-%d')}\n")
    print(f"| form | {' | '.join(map(str, args.lengths))} |\n|---|{'---|' * len(args.lengths)}")
    ratios = []
    for form in args.forms:
        cells = []
        for length in args.lengths:
            moved, ours, theirs = measure(form, length, args.cpu, args.threads)
            ratios.append(ours / theirs)
            cells.append(f"{moved / ours / 1e9:.0f}, {ratios[-1]:.2f}")
        print(f"| {form} | {' | '.join(cells)} |", flush=True)
    print(f"\ngeometric mean over ONNX Runtime: {statistics.geometric_mean(ratios):.3f}")


def measure(form: str, length: int, cpu: str, threads: int) -> tuple[int, float, float]:
    """Return bytes, and the best seconds by rule and by ONNX Runtime; exit if numbers differ."""
    rows = max(1, NUMBERS // length)
    shape = (max(1, rows // 48), length, 48) if "axis before" in form else (rows, length)
    inputs = {"x": np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)}
    model = write_model(FORMS[form], shape)
    with tempfile.TemporaryDirectory() as folder:
        session = compile_by_rule(model, Path(folder), cpu, threads)
    theirs = open_onnxruntime(model, threads)
    want = theirs.run(None, inputs)[0]
    if not np.allclose(session.run(inputs)["y"], want, rtol=1e-4, atol=1e-5):
        sys.exit(f"{form} of {length}: wrong numbers")
    calls: dict[str, Callable[[], object]] = {"ours": session.bind(inputs), "theirs": partial(theirs.run, None, inputs)}
    taken = time_in_turns(calls, ROUNDS, CALLS)
    ours, others = (min(min(each) for each in taken[name].ms) / 1e3 for name in calls)
    return inputs["x"].nbytes + want.nbytes, ours, others


def write_model(nodes: Nodes, shape: tuple[int, ...]) -> bytes:
    """Return an ONNX model of the form."""
    random = np.random.default_rng(1)
    given = CONSTANTS | {name: random.uniform(0.5, 1, shape[-1]).astype(np.float32) for name in ("g", "b")}
    read = {name for each in nodes for name in each.input}
    constants = [numpy_helper.from_array(value, name) for name, value in given.items() if name in read]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, of) for name, of in (("x", shape), ("y", None)))
    graph = helper.make_graph(nodes, "rows", [x], [y], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(onnx.shape_inference.infer_shapes(made).SerializeToString())


if __name__ == "__main__":
    main()
