"""The local machine as a device: child processes that hold a model, one running while the others are stopped."""

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
"""The time limit for loading a model, in seconds. A slower worker counts as hung: it blocks the device for others."""


@dataclass(frozen=True)
class Load:
    """A model to load: ``runtime`` is `tvm` (a package), `onnxruntime` or `openvino` (an ONNX file)."""

    runtime: str
    model: Path
    reference: Path
    """An .npz whose `input:<name>` arrays are the inputs."""
    threads: int


class Worker:
    """A running child process of :mod:`tvmbuild.devices.serve_model`."""

    def __init__(self, conversation: Conversation) -> None:
        self.ask = conversation.ask
        self._signal = conversation.signal
        self.pid = conversation.pid
        self.threads = int(str(conversation.read(LOAD_LIMIT_S)["threads"]))

    def outputs(self) -> dict[str, np.ndarray]:
        """Run once and return the outputs by name."""
        with TemporaryDirectory(prefix="tvmbuild-outputs-") as folder:
            return self._compute({"do": "outputs"}, Path(folder, "outputs.npz"))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once on other inputs than the reference's. Only packages can do that."""
        with TemporaryDirectory(prefix="tvmbuild-outputs-") as folder:
            given = Path(folder, "inputs.npz")
            write_arrays(given, inputs)
            return self._compute({"do": "run", "inputs": str(given)}, Path(folder, "outputs.npz"))

    def warm_up(self, seconds: float) -> float:
        """Run for about ``seconds`` and return the last call's time in ms."""
        return float(str(self.ask({"do": "warm_up", "seconds": seconds})["ms"]))

    def time(self, number: int, repeat: int) -> list[float]:
        """Return ``repeat`` samples in ms a call, each the mean of ``number`` calls."""
        samples = self.ask({"do": "time", "number": number, "repeat": repeat}, calls=number)["ms"]
        if not isinstance(samples, list):
            raise TypeError(f"a worker answered {samples!r}")
        return [float(sample) for sample in samples]

    def profile(self, repeat: int = 20) -> Profile:
        """Return the time of each operator over ``repeat`` calls, the longest first. Only packages can do that."""
        return Profile.from_json(self.ask({"do": "profile", "repeat": repeat}))

    def peak_memory_mb(self) -> float | None:
        """Return the peak resident memory of the process, or None if the system does not provide it."""
        value = self.ask({"do": "memory"})["peak_mb"]
        return None if value is None else float(str(value))

    def watch(self) -> None:
        """Begin to count the other work on the process's machine."""
        self.ask({"do": "watch"})

    def read_machine(self) -> MachineState:
        """Return that machine's state since :meth:`watch`."""
        return read_machine(self.ask({"do": "machine"}))

    def pause(self) -> None:
        """Stop the process: it takes no CPU, and its threads do not spin."""
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
    """Start a process that has ``load`` loaded. It ends with the context, or when this process dies."""
    command = [sys.executable, "-m", "tvmbuild.devices.serve_model", *describe_load(load)]
    # The runtime library alone: a shipped package needs no more, and it takes 5 times less memory than the compiler.
    variables = {"TVM_NUM_THREADS": str(load.threads), "TVM_USE_RUNTIME_LIB": "1"}
    with run_worker(load, command, variables) as worker:
        yield worker


def describe_load(load: Load) -> list[str]:
    """Return the arguments that tell :mod:`tvmbuild.devices.serve_model` what to load."""
    return [load.runtime, str(load.model.absolute()), str(load.reference.absolute()), str(load.threads)]


@contextmanager
def run_worker(load: Load, command: Sequence[str], variables: Mapping[str, str]) -> Iterator[Worker]:
    """Start a program with the answers of :mod:`tvmbuild.devices.serve_model` and more environment ``variables``."""
    with converse(command, variables, load.model.name) as conversation:
        yield Worker(conversation)
