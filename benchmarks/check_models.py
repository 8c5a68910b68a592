"""Take each model through simplify and compile for one CPU target without records, run it, and compare its numbers.

python benchmarks/check_models.py [MODEL.onnx|NETWORK …] [--target x86-64-v3]

Untuned code is right and slow: this checks that a model compiles and gives ONNX Runtime's numbers, not its speed.
Without names: every network of benchmarks/networks/models.yaml, including the quantised one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from network_files import find_inputs, find_network, list_networks

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.errors import TvmbuildError

if TYPE_CHECKING:
    from tvmbuild.preparing.reference import Reference

TOLERANCE = 1e-3


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    model: str
    result: str
    layout: str = ""
    tasks: str = ""
    error: str = ""
    largest: str = ""
    note: str = ""


def check(word: str, target: str) -> Result:
    """Build and run one model; a TvmbuildError becomes a result."""
    with tempfile.TemporaryDirectory() as name:
        try:
            return _check(find_network(word), target, Path(name))
        except TvmbuildError as error:
            return Result(Path(word).stem, "refused", note=" ".join(error.message.split())[:300])


def _check(model: Path, target: str, folder: Path) -> Result:
    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415 - each model has its own process
    from tvmbuild.package.archive import write_package  # noqa: PLC0415
    from tvmbuild.package.metadata import PackageTarget  # noqa: PLC0415
    from tvmbuild.preparing.simplify import simplify  # noqa: PLC0415

    simplified = simplify(model, find_inputs(model.stem), name=model.stem)
    attributes: Attributes = FrozenMap({"mcpu": target, "mtriple": "x86_64-unknown-linux-gnu", "num-cores": 2})
    cell = PackageTarget(target, "llvm", attributes)
    write_package(folder / "package.tar", build_package(simplified.model, cell, options=BuildOptions(model.stem)))
    return _run(model.stem, folder / "package.tar", simplified.reference)


def _run(model: str, package: Path, reference: Reference) -> Result:
    import numpy as np  # noqa: PLC0415
    import tvm  # noqa: PLC0415
    from tvm import relax  # noqa: PLC0415

    from tvmbuild.package.archive import extract_package  # noqa: PLC0415

    folder = package.with_suffix("")
    info = extract_package(package, folder)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "mod.so")), tvm.cpu())
    params = tvm.runtime.load_param_dict((folder / "mod.params").read_bytes())
    arguments = [tvm.runtime.tensor(reference.inputs[tensor.name]) for tensor in info.inputs]
    got = machine["main"](*arguments, *(params[name] for name in sorted(params) if name.startswith("p")))
    outputs = [got] if len(info.outputs) == 1 else list(got)
    worst, largest, right = 0.0, 0.0, True
    for tensor, output in zip(info.outputs, outputs, strict=True):
        have, want = output.numpy().astype("float64"), reference.outputs[tensor.name].astype("float64")
        worst = max(worst, float(np.abs(have - want).max()))
        largest = max(largest, float(np.abs(want).max()))
        right = right and bool(np.allclose(have, want, rtol=TOLERANCE, atol=TOLERANCE))
    notes = [*info.notes, *(["weights embedded"] if info.params == "embedded" else [])]
    verdict = "right" if right else "WRONG"
    return Result(
        model, verdict, info.layout, str(info.coverage.tasks), f"{worst:.1e}", f"{largest:.1e}", "; ".join(notes)
    )


def render(results: list[Result]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| model | result | layout | Tasks | max abs error | largest output | note |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.model} | {r.result} | {r.layout} | {r.tasks} | {r.error} | {r.largest} | {r.note} |" for r in results
    ]
    return "\n".join(lines)


def main() -> int:
    """Print the table; return 1 if some model computes wrong numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=sorted([*list_networks(), "minilm_l6_int8"]))
    parser.add_argument("--target", default="x86-64-v3")
    arguments = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        results = pool.starmap(check, [(word, arguments.target) for word in arguments.networks], chunksize=1)
    print(render(results))
    return 1 if any(result.result == "WRONG" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
