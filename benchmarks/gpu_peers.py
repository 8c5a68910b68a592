"""Time packages on this machine's NVIDIA GPU against PyTorch, ONNX Runtime and TensorRT, in turns: latency and ratios.

python benchmarks/gpu_peers.py PROJECT [CELL …] [--rounds 20] [--calls 50] [--out FILE] [--compile] [--peers GLOB …]

PROJECT has built cells (build/cells, build/models) of cuda targets. For each cell the package is timed, in turns with
the same network in each peer that is installed here:

- PyTorch (torch_contenders.py), eager and replayed as one CUDA graph, in both layouts; with --compile also
  `torch.compile`, with mode="reduce-overhead" and with mode="max-autotune", which takes minutes a cell;
- ONNX Runtime's CUDA provider and TensorRT (onnx_contenders.py).

A peer computes a float32 cell with its defaults, which use TF32: PyTorch for convolutions but not for matrix products,
ONNX Runtime and TensorRT for both. Peers called "strict" compute it in float32, as packages do, for a like comparison.
Inputs and outputs stay on the GPU, and each call is waited for. PyTorch's cuDNN searches for the fastest algorithm.
Numbers are compared with those of ONNX Runtime on the CPU, in float32. A contender that cannot run is listed with the
reason. Geometric means come last.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from turns import time_in_turns

from tvmbuild.benchmarking.statistics import estimate_ratio, summarize
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.timing import time_calls, warm_up
from tvmbuild.preparing.compare import find_error

OURS = "tvmbuild"
ARITHMETIC = (
    "float32 cells: packages, and peers called strict, compute in float32; other peers in TF32, PyTorch's products of "
    "matrices in float32"
)
Contender = tuple[Callable[[], object], Callable[[], dict[str, np.ndarray]]]
"""A call that is waited for, and a function that returns its outputs by name."""


class Peer(NamedTuple):
    """The function ``module.function`` that makes a contender from an ONNX file, inputs, and whether it is float16."""

    module: str
    function: str
    compiled: bool = False
    """True if it takes so long to make that it runs only on request."""
    strict: bool = False
    """True if it is only for float32 cells."""

    def make(self, path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
        """Return the contender; raises its library's errors if the library is missing or cannot run the file."""
        made: Contender = getattr(import_module(self.module), self.function)(path, inputs, half)
        return made


PEERS: dict[str, Peer] = {
    "torch eager": Peer("torch_contenders", "make_eager"),
    "torch graph": Peer("torch_contenders", "make_graph"),
    "torch graph strict": Peer("torch_contenders", "make_graph_strict", strict=True),
    "torch graph fused": Peer("torch_contenders", "make_graph_fused"),
    "torch graph NHWC": Peer("torch_contenders", "make_graph_nhwc"),
    "torch graph NHWC strict": Peer("torch_contenders", "make_graph_nhwc_strict", strict=True),
    "torch compile": Peer("torch_contenders", "make_compiled", compiled=True),
    "torch max-autotune": Peer("torch_contenders", "make_autotuned", compiled=True),
    "ort cuda": Peer("onnx_contenders", "make_cuda"),
    "ort graph": Peer("onnx_contenders", "make_cuda_graph"),
    "ort graph strict": Peer("onnx_contenders", "make_cuda_graph_strict", strict=True),
    "tensorrt": Peer("onnx_contenders", "make_tensorrt"),
    "tensorrt strict": Peer("onnx_contenders", "make_tensorrt_strict", strict=True),
}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", type=Path)
    parser.add_argument("cells", nargs="*", default=["*"], help="globs of MODEL@TARGET")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=50, help="of each contender in a round")
    parser.add_argument("--out", type=Path, default=Path("gpu_peers.json"))
    parser.add_argument("--compile", action="store_true", help="torch.compile too: minutes a cell")
    parser.add_argument("--peers", nargs="+", default=["*"], metavar="GLOB", help=f"of {', '.join(PEERS)}")
    return parser.parse_args(arguments)


def main() -> int:
    """Time every cell, then print the table."""
    args = parse()
    print(describe_floor(), flush=True)
    packages = sorted(args.project.glob("build/cells/*/*.tar"))
    cells = [path.parent.name for path in packages if any(fnmatchcase(path.parent.name, glob) for glob in args.cells)]
    rows: list[dict[str, Any]] = []
    for cell in cells:
        rows.append(measure(args.project, cell, args))
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
        print(describe(rows[-1]), flush=True)
    print(make_table(rows))
    return 0 if rows else 1


def describe_floor() -> str:
    """Return the cost of launching: a waited-for CUDA graph of one kernel of one element, and each of fifty more."""
    try:
        import torch  # noqa: PLC0415 - a peer, which may be missing
        from torch_contenders import waited  # noqa: PLC0415
    except ImportError as error:
        return f"what a launch costs is not measured: {error}"
    times = []
    for count in (1, 51):
        value, graph = torch.zeros(1, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                value.add_(1)
        call, _ = waited(graph.replay, [])
        warm_up(call, 0.2)
        times.append(float(np.median(time_calls(call, 1, 500))))
    one, many = times
    return f"a graph of one empty kernel: {one * 1000:.1f} us; each further kernel: {(many - one) / 50 * 1000:.2f} us"


def choose_peers(args: argparse.Namespace, half: bool) -> dict[str, Peer]:
    """Return the requested peers of a cell."""
    return {
        name: peer
        for name, peer in PEERS.items()
        if any(fnmatchcase(name, glob) for glob in args.peers)
        and (args.compile or not peer.compiled)
        and not (half and peer.strict)
    }


def measure(project: Path, cell: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return one cell's row."""
    (package,) = project.glob(f"build/cells/{cell}/*.tar")
    model = project / "build" / "models" / cell.split("@", maxsplit=1)[0]
    with np.load(model / "reference.npz") as arrays:
        inputs = {name.removeprefix("input:"): arrays[name] for name in arrays.files if name.startswith("input:")}
        want = {name.removeprefix("output:"): arrays[name] for name in arrays.files if name.startswith("output:")}
    session = Session(package)
    half = session.info.target.precision == "fp16"
    contenders: dict[str, Contender] = {OURS: (session.bind(inputs), lambda: session.run(inputs))}
    absent: dict[str, str] = {}
    for name, peer in choose_peers(args, half).items():
        made = try_to_make(partial(peer.make, model / "model.onnx", inputs, half))
        if isinstance(made, str):
            absent[name] = made
        else:
            contenders[name] = made
    errors = {name: find_error(outputs(), want) for name, (_, outputs) in contenders.items()}
    taken = time_in_turns({name: call for name, (call, _) in contenders.items()}, args.rounds, args.calls)
    ratios = {name: estimate_ratio(taken[OURS], each) for name, each in taken.items() if name != OURS}
    medians = {name: summarize(each).median for name, each in taken.items()}
    return {
        "cell": cell,
        "precision": session.info.target.precision,
        "covered": f"{session.info.coverage.covered}/{session.info.coverage.tasks}",
        "calls": len(session.info.operators or ()),
        "ms": {name: [each.value, each.low, each.high] for name, each in medians.items()},
        "ratio": {name: [each.value, each.low, each.high] for name, each in ratios.items()},
        "error": errors,
        "absent": absent,
    }


def try_to_make(make: Callable[[], Contender]) -> Contender | str:
    """Return the contender, run once, or the reason for its absence."""
    try:
        made = make()
        made[0]()
    except Exception as error:  # noqa: BLE001 - whatever another runtime raises
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:160]}"
    return made


def describe(row: dict[str, Any]) -> str:
    """Return one line of a cell, including its absent contenders."""
    times = ", ".join(f"{name} {value[0]:.3f}" for name, value in row["ms"].items())
    errors = ", ".join(f"{name} {value:.1e}" for name, value in row["error"].items())
    absent = "".join(f"; no {name}: {why}" for name, why in row["absent"].items())
    return f"{row['cell']}: ms: {times}; error: {errors}{absent}"


def make_table(rows: list[dict[str, Any]]) -> str:
    """Return the table in Markdown: our latency, and its ratio to each contender's with its 95 % interval."""
    names = [name for name in PEERS if any(name in row["ratio"] for row in rows)]
    lines = [
        f"{ARITHMETIC}.",
        "",
        "| cell | Tasks with records | ms | " + " | ".join(f"of {name}" for name in names) + " | error |",
        "|---" * (len(names) + 4) + "|",
    ]
    for row in rows:
        cells = [_show(row["ratio"].get(name)) for name in names]
        ours = row["ms"][OURS][0]
        lines.append(
            f"| {row['cell']} | {row['covered']} | {ours:.3f} | {' | '.join(cells)} | {row['error'][OURS]:.1e} |"
        )
    for what in ("fp32", "fp16", "all"):
        chosen = [row for row in rows if what in (row["precision"], "all")]
        means = [_mean([row["ratio"][name][0] for row in chosen if name in row["ratio"]]) for name in names]
        lines.append(f"| geometric mean, {what} | | | {' | '.join(means)} | |")
    return "\n".join(lines)


def _show(ratio: list[float] | None) -> str:
    return "-" if ratio is None else f"{ratio[0]:.2f} ({ratio[1]:.2f}-{ratio[2]:.2f})"


def _mean(values: list[float]) -> str:
    return f"{math.exp(sum(map(math.log, values)) / len(values)):.3f} ({len(values)})" if values else "-"


if __name__ == "__main__":
    sys.exit(main())
