"""Find out which way from a .pt2 file to code is right more often: torch's ONNX exporter, or TVM's own frontend.

python benchmarks/torch_programs.py [--only REGEX] [--way exporter]

Saves each network of torch_networks.py by torch.export.save, takes it both ways to code of this machine's CPU, and
compares with torch's outputs for the inputs of the export. Needs the extra `torch`. Ends with 1 if
tvmbuild's way, the exporter, is not right. Takes about five minutes on two cores.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import tvm
from torch.utils import _pytree as pytree
from torch_networks import NETWORKS
from tvm import relax

from tvmbuild.base.specs import InputSpec, Tolerance
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.pipeline import lower
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.onnx_graph import fix_inputs, graph_inputs
from tvmbuild.preparing.pt2.convert import GATE, convert_pt2

Compute = Callable[[Path, Any, list[np.ndarray]], list[np.ndarray]]


def main() -> int:
    """Print a line for each network and way, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="networks whose name has this")
    parser.add_argument("--way", choices=WAYS, action="append", help="default: both")
    args = parser.parse_args()
    ways = {way: WAYS[way] for way in args.way or WAYS}
    names = [name for name in NETWORKS if re.search(args.only, name)]
    right = dict.fromkeys(ways, 0)
    with TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder) / "net.pt2"
            program = NETWORKS[name].save(path)
            for way, compute in ways.items():
                began = time.monotonic()
                said = _try(compute, path, program)
                right[way] += said == "right"
                print(f"{name}, {way}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    print("; ".join(f"{way}: {count} of {len(names)} right" for way, count in right.items()))
    return 0 if right.get("exporter") == len(names) else 1


def _try(compute: Compute, path: Path, program: Any) -> str:
    args, kwargs = program.example_inputs
    with torch.no_grad():
        want = [each.numpy() for each in pytree.tree_leaves(program.module()(*args, **kwargs))]
    try:
        got = compute(path, program, [leaf.numpy() for leaf in pytree.tree_leaves((args, kwargs))])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        lines = str(error.message if isinstance(error, TvmbuildError) else error).strip().splitlines()
        return f"refused: {type(error).__name__}: {(lines or ['no message'])[-1][:200]}"
    tolerance = GATE.at_least("fp16") if any(each.dtype == np.float16 for each in want) else GATE
    return _compare(got, want, tolerance)


def _compare(got: list[np.ndarray], want: list[np.ndarray], tolerance: Tolerance) -> str:
    named = [{str(index): each for index, each in enumerate(side)} for side in (got, want)]
    problem = compare(named[0], named[1], tolerance).problem
    return f"wrong: {problem}" if problem else "right"


def _by_exporter(path: Path, _program: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    proto = convert_pt2(path, "net")
    named = dict(zip([value.name for value in graph_inputs(proto)], inputs, strict=True))
    fix_inputs(proto, [InputSpec(name, value.shape) for name, value in named.items()], "net")
    target = host_target(None)
    return list(build_here(lower(import_model(proto, "net"), target), target)(named).values())


def _by_frontend(_path: Path, program: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    from tvm.relax.frontend.torch import from_exported_program  # noqa: PLC0415 - it imports torch's parts

    module = relax.transform.DecomposeOpsForInference()(from_exported_program(program))
    machine = relax.VirtualMachine(tvm.compile(module, host_target(None)), tvm.cpu())
    results = machine["main"](*(tvm.runtime.tensor(each) for each in inputs))
    results = [results] if isinstance(results, tvm.runtime.Tensor) else list(results)
    return [each.numpy() for each in results]


WAYS: dict[str, Compute] = {"exporter": _by_exporter, "frontend": _by_frontend}

if __name__ == "__main__":
    sys.exit(main())
