"""The local machine as a device: child processes that hold a model, one running while the others are stopped."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

import numpy as np

from tvmbuild.devices.machine import Machine, read_machine
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import write_arrays
from tvmbuild.package.profile import OperatorRow
from tvmbuild.processes import neutral_folder

LOAD_LIMIT_S = 600.0
"""A worker that has not loaded its model by then is taken for hung: it would keep the device from all others."""
CALL_LIMIT_S = 120.0
"""The same for one call of the model."""


class DeviceLostError(TvmbuildError):
    """The device went away in the middle; what was asked of it may be asked again."""


@dataclass(frozen=True)
class Load:
    """What a worker loads: ``runtime`` is `tvm` (a package), `onnxruntime` or `openvino` (an ONNX file)."""

    runtime: str
    model: Path
    reference: Path
    """An .npz whose `input:<name>` arrays are the inputs."""
    threads: int


class Worker:
    """A running child process of :mod:`tvmbuild.devices.worker`."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str], load: Load) -> None:
        self._process = process
        self._errors = errors
        self._load = load
        self._received = b""
        self.pid = process.pid
        self.threads = int(str(self._read(LOAD_LIMIT_S)["threads"]))

    def outputs(self) -> dict[str, np.ndarray]:
        """Run once and return the outputs by name."""
        with TemporaryDirectory(prefix="tvmbuild-outputs-") as folder:
            return self._compute({"do": "outputs"}, Path(folder, "outputs.npz"))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run once on other inputs than the reference's; packages only."""
        with TemporaryDirectory(prefix="tvmbuild-outputs-") as folder:
            given = Path(folder, "inputs.npz")
            write_arrays(given, inputs)
            return self._compute({"do": "run", "inputs": str(given)}, Path(folder, "outputs.npz"))

    def warm_up(self, seconds: float) -> float:
        """Run for about ``seconds``; return the last call's time in ms."""
        return float(str(self.ask({"do": "warm_up", "seconds": seconds})["ms"]))

    def time(self, number: int, repeat: int) -> list[float]:
        """Return ``repeat`` samples in ms a call, each the mean of ``number`` calls."""
        samples = self.ask({"do": "time", "number": number, "repeat": repeat}, calls=number)["ms"]
        if not isinstance(samples, list):
            raise TypeError(f"a worker answered {samples!r}")
        return [float(sample) for sample in samples]

    def profile(self, repeat: int = 20) -> tuple[OperatorRow, ...]:
        """Return the time of each operator over ``repeat`` calls, the longest first; packages only."""
        rows = self.ask({"do": "profile", "repeat": repeat})["rows"]
        if not isinstance(rows, list):
            raise TypeError(f"a worker answered {rows!r}")
        return tuple(OperatorRow.from_json(row) for row in rows)

    def peak_memory_mb(self) -> float | None:
        """Return the high-water mark of the process's resident memory; None where the system does not tell."""
        value = self.ask({"do": "memory"})["peak_mb"]
        return None if value is None else float(str(value))

    def watch(self) -> None:
        """Begin to count what else runs on the machine of the process."""
        self.ask({"do": "watch"})

    def read_machine(self) -> Machine:
        """Return that machine's state since :meth:`watch`."""
        return read_machine(self.ask({"do": "machine"}))

    def pause(self) -> None:
        """Stop the process: it takes no CPU, not even spinning threads."""
        self._process.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a stopped process go on."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        with contextlib.suppress(OSError):  # stdin's buffer, when the process is gone
            if self._process.stdin is not None:
                self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()

    def _compute(self, command: Mapping[str, object], path: Path) -> dict[str, np.ndarray]:
        self.ask({**command, "path": str(path)})
        with np.load(path, allow_pickle=False) as arrays:
            return {name.removeprefix("output:"): arrays[name] for name in arrays.files}

    def ask(self, command: Mapping[str, object], calls: int = 1) -> dict[str, object]:
        """Return the answer; the worker gives a sign of life at least every ``calls`` calls of the model."""
        if self._process.stdin is None:
            raise TypeError("a worker has no stdin")
        with contextlib.suppress(BrokenPipeError):  # reading says why it died
            self._process.stdin.write(json.dumps({**command, "beat_s": CALL_LIMIT_S / 10}) + "\n")
            self._process.stdin.flush()
        return self._read(CALL_LIMIT_S * calls)

    def _read(self, limit_s: float) -> dict[str, object]:
        answer: dict[str, object] = {"alive": True}
        while "alive" in answer:
            answer = json.loads(self._read_line(limit_s))
        if "error" in answer:
            hint = None if answer.get("hint") is None else str(answer["hint"])
            raise (DeviceLostError if answer.get("lost") else TvmbuildError)(str(answer["error"]), hint)
        return answer

    def _read_line(self, limit_s: float) -> bytes:
        if self._process.stdout is None:
            raise TypeError("a worker has no stdout")
        end = time.monotonic() + limit_s
        # Not readline(): it would wait for the rest of a line.
        while b"\n" not in self._received:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self._process.kill()
                raise TvmbuildError(
                    f"the process that ran {self._load.model.name} gave no answer for {limit_s:g} s and was killed",
                    "it hangs, or one call takes that long: tune the cell, or build it only, with `device: none`",
                )
            block = os.read(self._process.stdout.fileno(), 1 << 16)
            if not block:
                raise self._explain_death()
            self._received += block
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _explain_death(self) -> TvmbuildError:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.rstrip() for line in self._errors.readlines() if line.strip()]
        sys.stderr.write("\n".join(lines[-60:]) + "\n")  # the whole story for the step's log
        how = f"died of signal {-code} ({_signal_name(-code)})" if code < 0 else f"failed with exit code {code}"
        last = f": {lines[-1]}" if lines and code >= 0 else ""
        hints = {
            -signal.SIGILL: "the package uses instructions that this CPU does not have: build for another mcpu",
            -signal.SIGKILL: "the machine may have run out of memory",
        }
        return TvmbuildError(f"the process that ran {self._load.model.name} {how}{last}", hints.get(code))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


@contextmanager
def start_worker(load: Load) -> Iterator[Worker]:
    """Start a process that has ``load`` loaded; it is gone when the context ends, or when this process dies."""
    command = [sys.executable, "-m", "tvmbuild.devices.worker", *describe_load(load)]
    # The runtime library alone: what a package needs where it ships, and 5 times less memory than the compiler.
    variables = {"TVM_NUM_THREADS": str(load.threads), "TVM_USE_RUNTIME_LIB": "1"}
    with run_worker(load, command, variables) as worker:
        yield worker


def describe_load(load: Load) -> list[str]:
    """Return the arguments that tell :mod:`tvmbuild.devices.worker` what to load."""
    return [load.runtime, str(load.model.absolute()), str(load.reference.absolute()), str(load.threads)]


@contextmanager
def run_worker(load: Load, command: Sequence[str], variables: Mapping[str, str]) -> Iterator[Worker]:
    """Start a program that answers as :mod:`tvmbuild.devices.worker` does, with more environment ``variables``."""
    environment, pipe = {**os.environ, **variables}, subprocess.PIPE
    with neutral_folder() as folder, TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True
        )
        worker = None
        try:
            worker = Worker(process, errors, load)
            yield worker
        finally:
            if worker is not None:
                worker.close()
            else:
                process.kill()
                process.communicate()
