"""Compare detectors that end with their own suppression with ONNX Runtime: rows, boxes, scores and labels.

python benchmarks/own_ends.py [NETWORK …] [--cpu CPU]

The networks (benchmarks/networks/ends) have random weights; they are built by rule. Each gets eight pictures: a
photograph, mirrored and darkened, noise of two kinds, and three pictures of one colour. Prints a row of a table in
Markdown for each; where rows differ, also how ONNX Runtime's own differ if the input changes by two millionths.
The networks are exported by the libraries of `benchmarks/networks/modern/networks.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import tvm
from network_files import ENDS, ROOT, find_network, list_networks
from PIL import Image

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.session import Session

PHOTOGRAPH = ROOT / "examples" / "detect" / "astronaut.png"
NEAR = 1e-3
"""Scores that are closer may come in either order."""
MOVED = np.float32(1 + 2e-6)
"""The factor of an input that moves ONNX Runtime's own results as rounding does."""
Outputs = Mapping[str, np.ndarray]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--cpu", default=str(tvm.target.codegen.llvm_get_system_cpu()))
    args = parser.parse_args()
    print("| network | rows of ONNX Runtime | right | values apart on photographs | on all | remarks |")
    print("|---" * 6 + "|")
    told = [tell(name, args.cpu) for name in args.networks or list_networks(ENDS)]
    return 0 if all(told) else 1


def tell(name: str, cpu: str) -> bool:
    """Print the row of a network; return False if it cannot be had or built."""
    try:
        print(compare(name, cpu), flush=True)
    except TvmbuildError as error:
        print(f"{name} is left out: {error.message}; {error.hint}", file=sys.stderr)
        return False
    return True


def compare(name: str, cpu: str) -> str:
    """Build a network, run both, and return the row of the table."""
    path = find_network(name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (taken,) = peer.get_inputs()
    target = PackageTarget("here", "llvm", FrozenMap({"mcpu": cpu, "num-cores": 2}))
    rows, apart, wrong = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "net.tar")
        write_package(package, build_package(path, target, options=BuildOptions(name)))
        with Session(package) as session:
            for said, picture in draw_pictures(taken.shape[2]).items():
                got = session.run({taken.name: picture})
                want = dict(zip(got, peer.run(list(got), {taken.name: picture}), strict=True))
                rows.append(count_rows(want))
                problem, distance = judge(got, want)
                apart.append(distance)
                if problem:
                    moved = dict(zip(got, peer.run(list(got), {taken.name: picture * MOVED}), strict=True))
                    own = judge(moved, want)[0] or "stay"
                    wrong.append(f"{said}: {problem}; ONNX Runtime's own, if its input moves: {own}")
    right, photographs = len(rows) - len(wrong), max(apart[:3])
    listed = ", ".join(map(str, rows))
    return f"| {name} | {listed} | {right} of {len(rows)} | {photographs:.2g} | {max(apart):.2g} | {'; '.join(wrong)} |"


def draw_pictures(size: int) -> dict[str, np.ndarray]:
    """Return pictures [1, 3, size, size] by what they show, the photograph's first."""
    with Image.open(PHOTOGRAPH) as opened:
        photograph = np.asarray(opened.convert("RGB").resize((size, size)), np.float32).transpose(2, 0, 1) / 255
    random = np.random.default_rng(0)
    drawn = {
        "photograph": photograph,
        "mirrored": photograph[:, :, ::-1],
        "dark": photograph * 0.4,
        "uniform noise": random.uniform(0, 1, photograph.shape),
        "normal noise": random.normal(0.5, 0.25, photograph.shape),
    }
    drawn |= {f"{level:g}": np.full(photograph.shape, level) for level in (0.0, 0.5, 1.0)}
    return {name: np.ascontiguousarray(value, np.float32)[None] for name, value in drawn.items()}


def count_rows(outputs: Outputs) -> int:
    """Return the number of rows; an output of fixed length ends with rows of zeros."""
    first = next(iter(outputs.values()))
    rows = first.reshape(-1, first.shape[-1])
    return int(np.count_nonzero(rows.any(axis=1)))


def judge(got: Outputs, want: Outputs) -> tuple[str, float]:
    """Return why outputs are wrong, or an empty text, and the largest difference of their values.

    Rows whose scores are almost equal may come in either order, so each row is compared with the nearest one of them.
    """
    for name, value in want.items():
        if got[name].shape != value.shape:
            return f"{name} has the shape {list(got[name].shape)}, not {list(value.shape)}", 0.0
    mine, theirs = (join_rows(each) for each in (got, want))
    if not len(theirs):
        return "", 0.0
    scores = find_scores(want)
    near = np.abs(scores[:, None] - scores[None, :]) <= NEAR
    apart = np.abs(mine[:, None] - theirs[None, :]).max(axis=2)
    best = np.where(near, apart, np.inf).min(axis=1)
    return ("" if best.max() < 1 else f"a row is off by {best.max():.2g}"), float(best.max())


def join_rows(outputs: Outputs) -> np.ndarray:
    """Return the rows of all outputs side by side, in float64."""
    arrays = [np.asarray(each, np.float64) for each in outputs.values()]
    count = arrays[0].shape[-2] if len(arrays) == 1 else len(arrays[0])
    return np.concatenate([each.reshape(count, -1) for each in arrays], axis=1)


def find_scores(outputs: Outputs) -> np.ndarray:
    """Return the score of each row: the output of this name, or the fifth column."""
    scores = outputs["scores"] if "scores" in outputs else next(iter(outputs.values()))[0, :, 4]
    return np.asarray(scores, np.float64)


if __name__ == "__main__":
    sys.exit(main())
