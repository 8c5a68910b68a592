"""The program of a worker process, which loads one model in one runtime, runs and times it, and reports its memory.

It is started as ``python -m tvmbuild.devices.serve_model RUNTIME MODEL REFERENCE THREADS``. It reads one JSON command
per line and answers each with one line of JSON. While a command runs it writes a sign of life about every ``beat_s``
seconds, a key of the command. It dies with its parent, even while it is stopped.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tvmbuild.base.processes import die_with_parent
from tvmbuild.devices.process_memory import measure_call, peak_memory_mb
from tvmbuild.devices.serve_frames import COMMANDS as FRAME_COMMANDS
from tvmbuild.devices.serve_frames import FrameCommands
from tvmbuild.devices.watch import Watch
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import Profile
from tvmbuild.package.timing import time_calls, warm_up


class Runner(Protocol):
    """A loaded model with bound inputs."""

    def call(self) -> object:
        """Run the model once on the bound inputs, and return when the outputs are ready."""

    def outputs(self) -> Mapping[str, np.ndarray]:
        """Run the model once on the bound inputs and return the outputs by name."""

    def threads(self) -> int:
        """Return the number of threads that the runtime uses."""


@runtime_checkable
class Profiler(Protocol):
    """A runner that can time each operator."""

    def profile(self, repeat: int, beat: Callable[[], None]) -> Profile:
        """Run the model ``repeat`` times and return the time of each operator, the longest first.

        ``beat`` is called between the runs.
        """


@runtime_checkable
class Computer(Protocol):
    """A runner that can run on inputs other than the bound ones."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Run the model once on ``inputs`` and return the outputs by name."""


def load_tvm(model: Path, inputs: Mapping[str, np.ndarray], threads: int) -> Runner:
    """Load a package in TVM's runtime. The environment variable TVM_NUM_THREADS must be ``threads``."""
    from tvmbuild.devices.tvm_runner import TvmRunner  # noqa: PLC0415 - each process imports its own runtime only

    return TvmRunner(model, inputs, threads)


def load_onnxruntime(model: Path, inputs: Mapping[str, np.ndarray], threads: int) -> Runner:
    """Load an ONNX file in ONNX Runtime, with its default options and ``threads`` threads."""
    from tvmbuild.devices.onnxruntime_runner import OnnxRuntimeRunner  # noqa: PLC0415

    return OnnxRuntimeRunner(model, inputs, threads)


def load_openvino(model: Path, inputs: Mapping[str, np.ndarray], threads: int) -> Runner:
    """Load an ONNX file in OpenVINO, for low latency in fp32 with ``threads`` threads."""
    from tvmbuild.devices.openvino_runner import OpenVinoRunner  # noqa: PLC0415

    return OpenVinoRunner(model, inputs, threads)


Loader = Callable[[Path, Mapping[str, np.ndarray], int], Runner]
RUNTIMES: dict[str, Loader] = {
    "tvm": load_tvm,
    "onnxruntime": load_onnxruntime,
    "openvino": load_openvino,
}


@dataclass
class _Holder:
    runner: Runner
    watch: Watch | None = None
    peak_mb: float = 0
    """The peak of memory before `measure_call` let it begin again."""
    frames: FrameCommands = field(init=False)

    def __post_init__(self) -> None:
        self.frames = FrameCommands(self.runner)


def serve(arguments: list[str], runtimes: Mapping[str, Loader] = RUNTIMES) -> None:
    """Load the model that the ``arguments`` of the program name, then answer commands until stdin ends."""
    die_with_parent()
    # All output of libraries goes to stderr; the answers keep the real stdout.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(value: Mapping[str, object]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        runtime, model, reference, threads = arguments
        with np.load(reference, allow_pickle=False) as arrays:
            inputs = {n.removeprefix("input:"): arrays[n] for n in arrays.files if n.startswith("input:")}
        holder = _Holder(runtimes[runtime](Path(model), inputs, int(threads)))
        answer({"threads": holder.runner.threads()})
        for line in sys.stdin:
            command = json.loads(line)
            answer(_obey(holder, command, _heart(answer, float(command["beat_s"]))))
    except TvmbuildError as error:
        answer({"error": error.message, "hint": error.hint})
        sys.exit(1)


def _heart(answer: Callable[[Mapping[str, object]], None], every_s: float) -> Callable[[], None]:
    """Return a function that sends the parent a sign of life at most once in ``every_s`` seconds."""
    last = time.monotonic()

    def beat() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every_s:
            last = now
            answer({"alive": True})

    return beat


Command = Mapping[str, Any]
Beat = Callable[[], None]


def _obey(holder: _Holder, command: Command, beat: Beat) -> dict[str, object]:
    name = command["do"]
    if name in FRAME_COMMANDS:
        return FRAME_COMMANDS[name](holder.frames, command, beat)
    return COMMANDS[name](holder, command, beat)


def _outputs(holder: _Holder, command: Command, _beat: Beat) -> dict[str, object]:
    _save_outputs(str(command["path"]), holder.runner.outputs())
    return {}


def _run(holder: _Holder, command: Command, _beat: Beat) -> dict[str, object]:
    if not isinstance(holder.runner, Computer):
        raise TvmbuildError("only packages run on other inputs than the reference's")
    with np.load(str(command["inputs"]), allow_pickle=False) as arrays:
        inputs = {name: arrays[name] for name in arrays.files}
    _save_outputs(str(command["path"]), holder.runner.run(inputs))
    return {}


def _warm_up(holder: _Holder, command: Command, beat: Beat) -> dict[str, object]:
    return {"ms": warm_up(holder.runner.call, float(command["seconds"]), beat)}


def _time(holder: _Holder, command: Command, beat: Beat) -> dict[str, object]:
    return {"ms": time_calls(holder.runner.call, int(command["number"]), int(command["repeat"]), beat)}


def _profile(holder: _Holder, command: Command, beat: Beat) -> dict[str, object]:
    if not isinstance(holder.runner, Profiler):
        raise TvmbuildError("only packages can be profiled by operator, not the models of other runtimes")
    return holder.runner.profile(int(command["repeat"]), beat).to_json()


def _start_watch(holder: _Holder, _command: Command, _beat: Beat) -> dict[str, object]:
    holder.watch = Watch()
    return {}


def _read_watch(holder: _Holder, _command: Command, _beat: Beat) -> dict[str, object]:
    if holder.watch is None:
        raise ValueError("asked for the machine's state before its watch")
    return asdict(holder.watch.read())


def _memory(holder: _Holder, _command: Command, _beat: Beat) -> dict[str, object]:
    peak_mb = peak_memory_mb()
    return {"peak_mb": None if peak_mb is None else max(peak_mb, holder.peak_mb)}


def _call_memory(holder: _Holder, _command: Command, _beat: Beat) -> dict[str, object]:
    holder.peak_mb = peak_memory_mb() or 0
    return {"bytes": measure_call(holder.runner.call)}


COMMANDS: dict[str, Callable[[_Holder, Command, Beat], dict[str, object]]] = {
    "outputs": _outputs,
    "run": _run,
    "warm_up": _warm_up,
    "time": _time,
    "profile": _profile,
    "watch": _start_watch,
    "machine": _read_watch,
    "memory": _memory,
    "call_memory": _call_memory,
}
"""The commands of a worker, by the value of the command's key `do`, without those about frames."""


def _save_outputs(path: str, outputs: Mapping[str, np.ndarray]) -> None:
    arrays: dict[str, Any] = {f"output:{name}": value for name, value in outputs.items()}
    np.savez(path, **arrays)


if __name__ == "__main__":
    serve(sys.argv[1:])
