"""The conversion of a .pt2 file to ONNX by torch's own exporter, checked against the program's outputs in torch."""

from __future__ import annotations

import json
import signal
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

from tvmbuild.base.processes import run_module
from tvmbuild.base.progress import report_progress
from tvmbuild.base.source_specs import TORCH
from tvmbuild.base.specs import Tolerance
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.onnx_graph import find_precision, load_model
from tvmbuild.preparing.reference import run_onnx

RESULT, ERROR = "model.onnx", "error.json"
INPUT, OUTPUT = "input:", "output:"
"""The prefixes of the names in a file of arrays."""
GATE = Tolerance(rtol=1e-3, atol=1e-4, of_largest=1e-4)
HINT = "export it to ONNX where it was made, or write that part of the network in another way"


def convert_pt2(path: Path, said: str) -> onnx.ModelProto:
    """Return the program in ONNX; TvmbuildError if torch cannot convert it, or if the conversion is wrong."""
    missing = next((name for name in TORCH.distributions if find_spec(name) is None), None)
    if missing is not None:
        raise TvmbuildError(TORCH.explain(missing))
    report_progress("converting it by torch.onnx.export")
    with TemporaryDirectory(prefix="tvmbuild-pt2-") as name:
        folder = Path(name)
        done = run_module("tvmbuild.preparing.pt2.convert_process", path.absolute(), folder)
        if (folder / ERROR).exists():
            error = json.loads((folder / ERROR).read_text(encoding="utf-8"))
            raise TvmbuildError(f"{said}: {error['message']}", error["hint"])
        if done.returncode or not (folder / RESULT).exists():
            raise _explain_ending(done.returncode, done.stderr, said)
        proto = load_model(folder / RESULT, said)
        for file in sorted(folder.glob("*.npz")):
            _prove(proto, file, said)
    return proto


def _prove(proto: Any, arrays: Path, said: str) -> None:
    with np.load(arrays, allow_pickle=False) as stored:
        feeds, want = (
            {name.removeprefix(role): stored[name] for name in stored.files if name.startswith(role)}
            for role in (INPUT, OUTPUT)
        )
    shown = ", ".join(f"{name} {list(value.shape)}" for name, value in feeds.items())
    tolerance = GATE.at_least(find_precision(proto))
    got = run_onnx(proto.SerializeToString(), feeds, f"what torch.onnx made of {said}, with {shown},")
    problem = compare(got, want, tolerance).problem
    if problem is not None:
        raise TvmbuildError(f"{said}: converted to ONNX it computes other numbers than torch: {problem}", HINT)


def _explain_ending(status: int, stderr: str, said: str) -> TvmbuildError:
    if status == -signal.SIGKILL:
        return TvmbuildError(
            f"{said}: torch was killed (SIGKILL) while it converted it, most likely because memory ran out",
            "Free memory, or export a smaller model.",
        )
    if status < 0:
        return TvmbuildError(f"{said}: torch crashed with {signal.Signals(-status).name} while it converted it", HINT)
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), f"exit code {status}")
    return TvmbuildError(f"{said}: torch could not convert it: {last}", HINT)
