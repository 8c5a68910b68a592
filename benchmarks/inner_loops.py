"""Count the instructions for each product in a convolution's inner loop, quantised and in float32, for any CPU.

python benchmarks/inner_loops.py CPU … [--triple aarch64-linux-gnu]

It reads the assembly of the rules' schedules; a CPU's manual says how many of them it executes at once.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.s_tir.meta_schedule.database import MemoryDatabase

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.pipeline import lower

SHAPES = {"1x1": (64, 256, 1, 1), "3x3": (64, 64, 3, 3), "depthwise 3x3": (96, 1, 3, 3)}
PRODUCTS = {
    "fmla": 4, "smlal": 4, "smlal2": 4, "smull": 4, "smull2": 4, "sdot": 16, "udot": 16, "sudot": 16, "usdot": 16,
}  # fmt: skip
"""The products in each of ARM's instructions on whole registers."""


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cpus", nargs="+", metavar="CPU")
    parser.add_argument("--triple", default="aarch64-linux-gnu")
    args = parser.parse_args()
    print("| CPU | convolution | quantised | float32 | quantised / float32 |\n|---|---|---|---|---|")
    for cpu in args.cpus:
        attributes: dict[str, AttributeValue] = {"mcpu": cpu, "mtriple": args.triple, "num-cores": 1}
        target = tvm_target("llvm", FrozenMap(attributes), FrozenMap())
        for name in SHAPES:
            quantised, floats = (_count(_compile(name, target, quantised=each)) for each in (True, False))
            print(f"| {cpu} | {name} | {quantised:.3f} | {floats:.3f} | {quantised / floats:.2f} |", flush=True)


def _compile(name: str, target: tvm.target.Target, *, quantised: bool) -> str:
    """Return the assembly of the convolution's function."""
    lowered = lower(import_onnx(_write_model(name, quantised=quantised)), target)
    mod = apply_records(lowered, target, MemoryDatabase()).mod
    (function,) = (each for variable, each in mod.functions.items() if "conv2d" in variable.name_hint)
    return str(
        tvm.tirx.build(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target).inspect_source("s")
    )


def _write_model(name: str, *, quantised: bool) -> bytes:
    shape, random = SHAPES[name], np.random.RandomState(0)
    group, pad = shape[0] if shape[1] == 1 else 1, shape[2] // 2
    constants = {"scale": np.float32(0.02), "zero": np.uint8(120), "weights": random.randn(*shape).astype(np.float32)}
    nodes: list[onnx.NodeProto] = []
    data = "x"

    def add(kind: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"t{len(nodes)}"], **attributes))
        return f"t{len(nodes) - 1}"

    weights = "weights"
    if quantised:
        constants |= {"weights": random.randint(-127, 128, shape).astype(np.int8), "middle": np.int8(0)}
        data = add("DequantizeLinear", add("QuantizeLinear", data, "scale", "zero"), "scale", "zero")
        weights = add("DequantizeLinear", "weights", "scale", "middle")
    summed = add("Conv", data, weights, pads=[pad] * 4, group=group)
    last = add("QuantizeLinear", summed, "scale", "zero") if quantised else add("Relu", summed)
    kind = TensorProto.UINT8 if quantised else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, shape[1] * group, 28, 28])],
        [helper.make_tensor_value_info(last, kind, [1, shape[0], 28, 28])],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def _count(assembly: str) -> float:
    """Return the instructions for each product in the innermost loop with the most products."""
    lines = [line.strip() for line in assembly.splitlines()]
    codes = [line.split()[0] if re.match(r"[a-z]", line) else "" for line in lines]
    best, fewest = 0, 0.0
    for first, last in _find_loops(lines):
        sizes = [_products(code, line) for code, line in zip(codes[first:last], lines[first:last], strict=True)]
        if sum(sizes) > best:
            best, fewest = sum(sizes), sum(map(bool, codes[first : last + 1])) / sum(sizes)
    return fewest


def _products(code: str, line: str) -> int:
    return 2 * PRODUCTS[code] if ".8h," in line and code.startswith("smull") else PRODUCTS.get(code, 0)


def _find_loops(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each innermost loop."""
    labels = {line.partition(":")[0]: place for place, line in enumerate(lines) if line.startswith(".LBB")}
    jumps = ((place, line.split()[-1]) for place, line in enumerate(lines) if re.match(r"(b\.|cbn?z|tbn?z)", line))
    found = [(labels[label], place) for place, label in jumps if labels.get(label, place) < place]
    for one in found:
        if not any(other != one and one[0] <= other[0] and other[1] <= one[1] for other in found):
            yield one


if __name__ == "__main__":
    main()
