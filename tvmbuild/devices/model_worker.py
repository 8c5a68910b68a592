"""Worker processes that hold a loaded model. All but one can be paused, so that they do not disturb its timing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tvmbuild.devices.conversation import Conversation, converse
from tvmbuild.devices.machine_state import MachineState, read_machine
from tvmbuild.package.inputs import write_arrays
from tvmbuild.package.profile import Profile

LOAD_LIMIT_S = 600.0
"""The time limit for loading a model, in seconds. A slower worker counts as hung, because it blocks the device."""


@dataclass(frozen=True)
class Load:
    """A model to load in a worker process, and the runtime for it."""

    runtime: str
    """The runtime: `tvm`, `onnxruntime` or `openvino`."""
    model: Path
    """A package for `tvm`, an ONNX file for the other runtimes."""
    reference: Path
    """The .npz whose arrays `input:<name>` are the inputs."""
    threads: int
    """The number of threads of one call."""


class Worker:
    """The parent's handle of a running child process that holds a model (:mod:`tvmbuild.devices.serve_model`).

    A method raises TvmbuildError if the process reports an error, dies or hangs.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.ask = conversation.ask
        self._signal = conversation.signal
        self.pid = conversation.pid
        self.threads = int(str(conversation.read(LOAD_LIMIT_S)["threads"]))

    def outputs(self) -> dict[str, np.ndarray]:
        """Run the model once on the reference's inputs and return the outputs by name."""
        with TemporaryDirectory(prefix="tvmbuild-outputs-") as folder:
            return self._compute({"do": "outputs"}, Path(folder, "outputs.npz"))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the model once on ``inputs`` instead of the reference's and return the outputs by name.

        Only packages can do this; for other runtimes it raises TvmbuildError.
        """
        with TemporaryDirectory(prefix="tvmbuild-outputs-") as folder:
            given = Path(folder, "inputs.npz")
            write_arrays(given, inputs)
            return self._compute({"do": "run", "inputs": str(given)}, Path(folder, "outputs.npz"))

    def warm_up(self, seconds: float) -> float:
        """Run the model for about ``seconds`` and return the time of the last call in ms."""
        return float(str(self.ask({"do": "warm_up", "seconds": seconds})["ms"]))

    def time(self, number: int, repeat: int) -> list[float]:
        """Return ``repeat`` samples in ms, each the mean time of ``number`` calls."""
        samples = self.ask({"do": "time", "number": number, "repeat": repeat}, calls=number)["ms"]
        if not isinstance(samples, list):
            raise TypeError(f"a worker answered {samples!r}")
        return [float(sample) for sample in samples]

    def profile(self, repeat: int = 20) -> Profile:
        """Return the time of each operator over ``repeat`` calls, the longest first.

        Only packages can do this; for other runtimes it raises TvmbuildError.
        """
        return Profile.from_json(self.ask({"do": "profile", "repeat": repeat}))

    def peak_memory_mb(self) -> float | None:
        """Return the peak resident memory of the process in MiB, or None if the system does not provide it."""
        value = self.ask({"do": "memory"})["peak_mb"]
        return None if value is None else float(str(value))

    def call_memory(self) -> int | None:
        """Return the bytes of `measure_call`, or None if the system does not tell. The process has made no call yet."""
        value = self.ask({"do": "call_memory"}, calls=1)["bytes"]
        return None if value is None else int(str(value))

    def watch(self) -> None:
        """Begin to count the work of other programs on the machine that runs the process."""
        self.ask({"do": "watch"})

    def read_machine(self) -> MachineState:
        """Return the state of the machine that runs the process, since the call of :meth:`watch`."""
        return read_machine(self.ask({"do": "machine"}))

    def pause(self) -> None:
        """Stop the process by a signal, so that it takes no CPU time: threads that wait for work would spin."""
        self._signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a stopped process continue."""
        self._signal(signal.SIGCONT)

    def _compute(self, command: Mapping[str, object], path: Path) -> dict[str, np.ndarray]:
        self.ask({**command, "path": str(path)})
        with np.load(path, allow_pickle=False) as arrays:
            return {name.removeprefix("output:"): arrays[name] for name in arrays.files}


@contextmanager
def start_worker(load: Load) -> Iterator[Worker]:
    """Start a process on this machine that loads ``load``, and yield its worker.

    The process ends with the context, or when this process dies.
    """
    command = [sys.executable, "-m", "tvmbuild.devices.serve_model", *describe_load(load)]
    # Only the runtime library: a shipped package needs no more, and it takes 5 times less memory than the compiler.
    variables = {"TVM_NUM_THREADS": str(load.threads), "TVM_USE_RUNTIME_LIB": "1"}
    with run_worker(load, command, variables) as worker:
        yield worker


def describe_load(load: Load) -> list[str]:
    """Return ``load`` as command-line arguments of :mod:`tvmbuild.devices.serve_model`."""
    return [load.runtime, str(load.model.absolute()), str(load.reference.absolute()), str(load.threads)]


@contextmanager
def run_worker(load: Load, command: Sequence[str], variables: Mapping[str, str]) -> Iterator[Worker]:
    """Start a program that answers commands as :mod:`tvmbuild.devices.serve_model` does, and yield its worker.

    ``variables`` are added to the program's environment.
    """
    with converse(command, variables, load.model.name) as conversation:
        yield Worker(conversation)
