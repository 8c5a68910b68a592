"""A separate process for onnxsim, which may crash: ``python -m tvmbuild.preparing.onnxsim_process IN OUT [PASS …]``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tvmbuild.base.processes import run_module

TIMEOUT_S = 1800


def simplify_in_process(model: bytes, skip: Sequence[str]) -> tuple[Any, str | None]:
    """Return (simplified ModelProto, None), or (None, the reason) if onnxsim fails, crashes or does not end."""
    with TemporaryDirectory(prefix="tvmbuild-onnxsim-") as folder:
        source, result = Path(folder, "in.onnx"), Path(folder, "out.onnx")
        source.write_bytes(model)
        try:
            done = run_module("tvmbuild.preparing.onnxsim_process", source, result, *skip, timeout_s=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None, f"onnxsim did not end in {TIMEOUT_S} s"
        if done.returncode < 0:
            return None, f"onnxsim crashed with signal {-done.returncode}"
        if done.returncode > 0:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            return None, f"onnxsim failed: {lines[-1] if lines else f'exit code {done.returncode}'}"
        try:
            simplified = onnx.load(str(result))
        except (OSError, DecodeError) as error:
            return None, f"onnxsim left no readable model: {error}"
    # Leave out onnxsim's verdicts of its own checks, which depend on what else is installed.
    kept = [entry for entry in simplified.metadata_props if not entry.key.startswith("onnxsim.")]
    del simplified.metadata_props[:]
    simplified.metadata_props.extend(kept)
    return simplified, None


def main(arguments: Sequence[str]) -> None:
    """Simplify the file IN into OUT, without the optimiser passes named after them."""
    import onnxsim  # noqa: PLC0415 - only this process may crash with it

    source, result, *skip = arguments
    model, _ = onnxsim.simplify(onnx.load(source), check_n=0, skipped_optimizers=skip or None)
    Path(result).write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main(sys.argv[1:])
