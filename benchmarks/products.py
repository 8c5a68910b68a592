"""Time matrix products without a record, by rule, beside ONNX Runtime; the number of rows must not matter.

python benchmarks/products.py [--rows 7 197 …] [--widths 192x768 …] [--batch 3] [--cpu x86-64-v4] [--threads 2]

A width is SUMxCOLUMNS. The second matrix is constant, as weights are; with --batch it is an input of that many
matrices. Each product is checked, and both are timed in turns in one process; the best time counts, because
disturbances only make it slower. Prints a table in Markdown: GFLOP/s, their share of the measured peak, the time over
ONNX Runtime's. Needs an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from turns import time_in_turns

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.devices.local.peak import measure_peak
from tvmbuild.records.schedule import NO_RECORDS

if TYPE_CHECKING:
    from tvmbuild.package.runtime.session import Session

ROWS = (1, 7, 49, 50, 77, 127, 128, 197, 256, 500, 577, 1000)
WIDTHS = ("192x192", "192x768", "768x192", "384x384", "384x1536", "1536x384", "768x768")
ROUNDS, CALLS = 8, 25


@dataclass(frozen=True)
class Product:
    """The shape of a product, and its operands."""

    rows: int
    sum: int
    columns: int
    batch: int
    """The number of matrices; zero means one matrix, whose second factor is constant."""

    @property
    def flops(self) -> int:
        """Return the number of multiplications and additions."""
        return 2 * self.rows * self.sum * self.columns * max(1, self.batch)

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Return two matrices, or two batches of matrices."""
        random, batch = np.random.default_rng(0), (self.batch,) if self.batch else ()
        shapes = (*batch, self.rows, self.sum), (*batch, self.sum, self.columns)
        left, right = (random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes)
        return left, right


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--widths", nargs="+", default=WIDTHS)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--cpu", default="x86-64-v4")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    os.environ |= {"TVM_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    peak = measure_peak(args.threads).gflops
    print(f"{args.cpu}, {args.threads} threads, {cpu_name()}, {time.strftime('%Y-%m-%d')}: peak {peak:.0f} GFLOP/s\n")
    print(f"| rows | {' | '.join(args.widths)} |\n|---|{'---|' * len(args.widths)}")
    ratios = []
    for rows in args.rows:
        cells = []
        for width in args.widths:
            summed, columns = map(int, width.split("x"))
            product = Product(rows, summed, columns, args.batch)
            ours, theirs = measure(product, args.cpu, args.threads)
            speed = product.flops / ours / 1e9
            ratios.append(ours / theirs)
            cells.append(f"{speed:.0f}, {speed / peak:.0%}, {ratios[-1]:.2f}")
        print(f"| {rows} | {' | '.join(cells)} |", flush=True)
    print(f"\ngeometric mean over ONNX Runtime: {statistics.geometric_mean(ratios):.3f}")


def measure(product: Product, cpu: str, threads: int) -> tuple[float, float]:
    """Return the best seconds of the product by rule and by ONNX Runtime; exit if numbers differ."""
    left, right = product.draw()
    model, inputs = write_model(product, right), {"x": left} | ({"w": right} if product.batch else {})
    with tempfile.TemporaryDirectory() as folder:
        session = compile_by_rule(model, Path(folder), cpu, threads)
    theirs = open_onnxruntime(model, threads)
    if not np.allclose(session.run(inputs)["y"], theirs.run(None, inputs)[0], rtol=1e-3, atol=1e-3):
        sys.exit(f"{product}: wrong numbers")
    calls: dict[str, Callable[[], object]] = {"ours": session.bind(inputs), "theirs": partial(theirs.run, None, inputs)}
    taken = time_in_turns(calls, ROUNDS, CALLS)
    ours, others = (min(min(each) for each in taken[name].ms) / 1e3 for name in calls)
    return ours, others


def write_model(product: Product, right: np.ndarray) -> bytes:
    """Return an ONNX model of the product."""
    batch = [product.batch] if product.batch else []
    infos = {
        "x": [product.rows, product.sum],
        "w": [product.sum, product.columns],
        "y": [product.rows, product.columns],
    }
    values = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, batch + shape) for name, shape in infos.items()
    }
    constants = [] if product.batch else [numpy_helper.from_array(right, "w")]
    inputs = [values["x"], values["w"]] if product.batch else [values["x"]]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "product", inputs, [values["y"]], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def compile_by_rule(model: bytes, folder: Path, cpu: str, threads: int) -> Session:
    """Compile the model without records and load the package."""
    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415 - after the environment is set
    from tvmbuild.package.archive import write_package  # noqa: PLC0415
    from tvmbuild.package.metadata import PackageTarget  # noqa: PLC0415
    from tvmbuild.package.runtime.session import Session  # noqa: PLC0415

    source, package = folder / "product.onnx", folder / "product.tar"
    source.write_bytes(model)
    target = PackageTarget("bench", "llvm", FrozenMap({"mcpu": cpu, "num-cores": threads}))
    write_package(package, build_package(source, target, NO_RECORDS, BuildOptions("product")))
    return Session(package, threads)


def open_onnxruntime(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    """Load the model with ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
