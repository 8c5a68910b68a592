"""The program of a worker process that goes the usual way from a frame to the result, with OpenCV.

It is started as ``python -m tvmbuild.benchmarking.frames.serve_opencv opencv SETUP REFERENCE THREADS`` and answers as
:mod:`tvmbuild.devices.serve_model` does. SETUP is a JSON file with the paths `package` and `model`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tvmbuild.base.files import write_json
from tvmbuild.devices.model_worker import Load, Worker, describe_load, run_worker
from tvmbuild.devices.serve_model import serve
from tvmbuild.package.archive import read_metadata

RUNTIME = "opencv"


@contextmanager
def start_opencv(package: Path, load: Load, folder: Path) -> Iterator[Worker]:
    """Start the program for a package, and yield its worker. ``load`` names the ONNX file; ``folder`` gets a file."""
    setup = folder / "opencv.json"
    write_json(setup, {"package": str(package.absolute()), "model": str(load.model.absolute())})
    load = Load(RUNTIME, setup, load.reference, load.threads)
    command = [sys.executable, "-m", "tvmbuild.benchmarking.frames.serve_opencv", *describe_load(load)]
    with run_worker(load, command, {}) as worker:
        yield worker


class _Runner:
    """A network that is loaded as soon as frames are bound."""

    def __init__(self, setup: Path, inputs: Mapping[str, np.ndarray], threads: int) -> None:
        from tvmbuild.benchmarking.frames.opencv import Setup  # noqa: PLC0415 - OpenCV, in this process only

        told = json.loads(setup.read_text())
        info = read_metadata(Path(told["package"])).at_inputs({name: each.shape for name, each in inputs.items()})
        self._setup = Setup(info, Path(told["model"]), threads, inputs)

    def bind_frames(self, frames: Sequence[np.ndarray]) -> object:
        """Return the program that makes results of these frames with OpenCV."""
        from tvmbuild.benchmarking.frames.opencv import OpenCvWay  # noqa: PLC0415 - as above

        return OpenCvWay(self._setup, frames)

    def call(self) -> object:
        """Refuse: this runner takes frames only."""
        raise TypeError("this process takes frames only")

    def outputs(self) -> Mapping[str, np.ndarray]:
        """Refuse: this runner takes frames only."""
        raise TypeError("this process takes frames only")

    def threads(self) -> int:
        """Return the number of threads that OpenCV and ONNX Runtime were given."""
        return self._setup.threads


if __name__ == "__main__":
    serve(sys.argv[1:], {RUNTIME: _Runner})
