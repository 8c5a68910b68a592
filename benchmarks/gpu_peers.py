"""Packages on this machine's NVIDIA card against PyTorch and ONNX Runtime, in turns: latency and ratios.

python benchmarks/gpu_peers.py PROJECT [CELL …] [--rounds 20] [--calls 50] [--out FILE] [--compile]

PROJECT has built cells (build/cells, build/models) of cuda targets. For each cell are timed, in turns: the
package; the same network in PyTorch (torch_contenders.py), eager and replayed as one CUDA graph, in both layouts; with
--compile `torch.compile(mode="reduce-overhead")`; ONNX Runtime's CUDA and TensorRT providers where they are installed.
Inputs and outputs stay on the card, and each call is waited for. PyTorch has cuDNN's search for the fastest algorithm
switched on, and TF32 as it is by default: in convolutions, not in products of matrices. Numbers are compared with those
of ONNX Runtime on the CPU, in float32. A contender that cannot run is listed with the reason. Geometric means last.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_contenders import Contender, make_compiled, make_eager, make_graph, make_graph_fused, make_graph_nhwc, waited
from turns import time_in_turns

from tvmbuild.benchmarking.statistics import estimate_ratio, summarize
from tvmbuild.package.runtime.session import Session
from tvmbuild.package.timing import time_calls, warm_up
from tvmbuild.preparing.compare import find_error

OURS = "tvmbuild"


def main() -> int:
    """Time every cell, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", type=Path)
    parser.add_argument("cells", nargs="*", default=["*"], help="globs of MODEL@TARGET")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=50, help="of each contender in a round")
    parser.add_argument("--out", type=Path, default=Path("gpu_peers.json"))
    parser.add_argument("--compile", action="store_true", help="torch.compile too: up to a minute a cell")
    args = parser.parse_args()
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
    makers = {name: make for name, make in MAKERS.items() if name != "torch compile" or args.compile}
    for name, make in makers.items():
        made = _try(partial(make, model / "model.onnx", inputs, half))
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


def _try(make: Callable[[], Contender]) -> Contender | str:
    """Return the contender, run once, or why there is none."""
    try:
        made = make()
        made[0]()
    except Exception as error:  # noqa: BLE001 - whatever another runtime raises
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:160]}"
    return made


def describe_floor() -> str:
    """Return what launching costs: a waited-for CUDA graph of one kernel of one element, and each of fifty more."""
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


def make_onnxruntime(provider: str) -> Callable[[Path, dict[str, np.ndarray], bool], Contender]:
    """Return a maker of ONNX Runtime with that provider, its arrays on the card."""

    def make(path: Path, inputs: dict[str, np.ndarray], half: bool) -> Contender:
        import onnxruntime as ort  # noqa: PLC0415

        if provider not in ort.get_available_providers():
            raise RuntimeError(f"this onnxruntime {ort.__version__} has no {provider}")
        if half:
            raise RuntimeError("the float32 file only")
        session = ort.InferenceSession(path, providers=[provider])
        binding = session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value, "cuda", 0))
        names = [value.name for value in session.get_outputs()]
        for name in names:
            binding.bind_output(name, "cuda")

        def call() -> object:
            session.run_with_iobinding(binding)
            binding.synchronize_outputs()
            return None

        def outputs() -> dict[str, np.ndarray]:
            call()
            return dict(zip(names, binding.copy_outputs_to_cpu(), strict=True))

        return call, outputs

    return make


MAKERS: dict[str, Callable[[Path, dict[str, np.ndarray], bool], Contender]] = {
    "torch eager": make_eager,
    "torch graph": make_graph,
    "torch graph fused": make_graph_fused,
    "torch graph NHWC": make_graph_nhwc,
    "torch compile": make_compiled,
    "ort cuda": make_onnxruntime("CUDAExecutionProvider"),
    "ort tensorrt": make_onnxruntime("TensorrtExecutionProvider"),
}


def describe(row: dict[str, Any]) -> str:
    """Return one line of a cell, its absent contenders included."""
    times = ", ".join(f"{name} {value[0]:.3f}" for name, value in row["ms"].items())
    errors = ", ".join(f"{name} {value:.1e}" for name, value in row["error"].items())
    absent = "".join(f"; no {name}: {why}" for name, why in row["absent"].items())
    return f"{row['cell']}: ms: {times}; error: {errors}{absent}"


def make_table(rows: list[dict[str, Any]]) -> str:
    """Return the table in Markdown: our latency, and ours over each contender's with its 95 % interval."""
    names = [name for name in MAKERS if any(name in row["ratio"] for row in rows)]
    lines = [
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
