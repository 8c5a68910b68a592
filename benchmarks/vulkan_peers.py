"""Time Vulkan packages on this machine's GPU against CUDA packages of the same networks, and ncnn: in turns, ratios.

python benchmarks/vulkan_peers.py PROJECT [MODEL …] [--ncnn FOLDER] [--rounds 10] [--calls 20] [--out FILE]

PROJECT has built cells (build/cells, build/models) of vulkan and cuda targets. For each model, its packages are timed,
in turns, with inputs and outputs in NumPy's arrays, and ncnn (PyPI) in float32 and in its default, float16, from
FOLDER/MODEL.param and .bin (`pnnx MODEL.onnx fp16=0` makes them). Then the packages are timed again with inputs and
outputs on the device. Numbers are compared with those of ONNX Runtime on the CPU. TVM's compiler is not needed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from turns import time_in_turns

from tvmbuild.benchmarking.statistics import Samples, estimate_ratio, summarize
from tvmbuild.package.runtime.session import Session
from tvmbuild.preparing.compare import find_error

Arrays = dict[str, np.ndarray]
Call = Callable[[], Any]


def main() -> int:
    """Time every model, then print the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", type=Path)
    parser.add_argument("models", nargs="*", default=["*"], help="globs")
    parser.add_argument("--ncnn", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=20, help="of each contender in a round")
    parser.add_argument("--out", type=Path, default=Path("vulkan_peers.json"))
    args = parser.parse_args()
    cells = [path.name.split("@") for path in sorted((args.project / "build/cells").iterdir())]
    models = sorted({model for model, _ in cells if any(fnmatchcase(model, glob) for glob in args.models)})
    rows: list[dict[str, Any]] = []
    for model in models:
        rows.append(measure(args, model, [target for name, target in cells if name == model]))
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
        print(describe(rows[-1]), flush=True)
    print(describe_means(rows))
    return 0 if rows else 1


def measure(args: argparse.Namespace, model: str, targets: list[str]) -> dict[str, Any]:
    """Return one model's row."""
    with np.load(args.project / "build" / "models" / model / "reference.npz") as arrays:
        inputs = {name.removeprefix("input:"): arrays[name] for name in arrays.files if name.startswith("input:")}
        want = {name.removeprefix("output:"): arrays[name] for name in arrays.files if name.startswith("output:")}
    sessions = {
        each: Session(args.project / "build/cells" / f"{model}@{each}" / f"{model}-{each}.tar") for each in targets
    }
    errors = {each: find_error(session.run(inputs), want) for each, session in sessions.items()}
    calls: dict[str, Call] = {each: lambda session=session: session.run(inputs) for each, session in sessions.items()}  # type: ignore[misc]
    for half in (False, True):
        name = f"ncnn {'fp16' if half else 'fp32'}"
        run = make_ncnn(args.ncnn, model, inputs, len(want), half=half)
        if run is not None:
            calls[name], errors[name] = run, find_error(dict(zip(want, run(), strict=True)), want)
    resident = {f"{each}, resident": session.bind(inputs) for each, session in sessions.items()}
    samples = {
        name: each for kind in (calls, resident) for name, each in time_in_turns(kind, args.rounds, args.calls).items()
    }
    return {
        "model": model,
        "ms": {name: summarize(each).median.value for name, each in samples.items()},
        "ratios": list_ratios(samples, sessions),
        "errors": errors,
    }


def list_ratios(samples: Mapping[str, Samples], sessions: Mapping[str, Session]) -> dict[str, float]:
    """Return each Vulkan package's time over that of every other contender of the same kind."""
    found = {}
    for target, session in sessions.items():
        if session.info.target.kind != "vulkan":
            continue
        for name, each in samples.items():
            suffix = ", resident" if name.endswith(", resident") else ""
            if name != f"{target}{suffix}":
                found[f"{target} / {name}"] = estimate_ratio(samples[f"{target}{suffix}"], each).value
    return found


def make_ncnn(folder: Path | None, model: str, inputs: Arrays, outputs: int, *, half: bool) -> Call | None:
    """Return a call of ncnn on the GPU, from NumPy's arrays to NumPy's; None if it has no such model."""
    if folder is None or not (folder / f"{model}.param").is_file():
        return None
    import ncnn  # type: ignore[import-not-found]  # noqa: PLC0415 - a peer that need not be there

    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, name, half)
    if net.load_param(str(folder / f"{model}.param")) or net.load_model(str(folder / f"{model}.bin")):
        return None  # it has an operator that ncnn lacks, and running it would crash

    def run() -> list[np.ndarray]:
        extractor = net.create_extractor()
        for index, value in enumerate(inputs.values()):
            extractor.input(f"in{index}", ncnn.Mat(value[0]))
        return [np.array(extractor.extract(f"out{index}")[1]) for index in range(outputs)]

    return run


def describe(row: Mapping[str, Any]) -> str:
    """Return a model's lines."""
    times = ", ".join(f"{name} {value:.3f}" for name, value in row["ms"].items())
    ratios = ", ".join(f"{name} {value:.2f}" for name, value in row["ratios"].items())
    errors = ", ".join(f"{name} {value:.1e}" for name, value in row["errors"].items())
    return f"{row['model']}\n  ms: {times}\n  ratios: {ratios}\n  errors: {errors}"


def describe_means(rows: list[dict[str, Any]]) -> str:
    """Return the geometric means of the ratios that every model has, and the largest of each."""
    lines = []
    for name in rows[0]["ratios"] if rows else ():
        values = [row["ratios"][name] for row in rows if name in row["ratios"]]
        mean = math.exp(sum(map(math.log, values)) / len(values))
        lines.append(f"{name}: {mean:.3f}, at most {max(values):.2f} ({len(values)} models)")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
