"""The program of a local child process that relays the commands of a worker by ssh to a board without Python.

It is started as ``python -m tvmbuild.devices.ssh.relay RUNTIME MODEL REFERENCE THREADS HOST`` and answers as
:mod:`tvmbuild.devices.serve_model` does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tvmbuild.base.host_cpu import find_cpu_name
from tvmbuild.base.processes import die_with_parent
from tvmbuild.devices.answers import Answers
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.process_memory import find_peak_mb
from tvmbuild.devices.ssh.frames import COMMANDS as FRAME_COMMANDS
from tvmbuild.devices.ssh.frames import BoardFrames
from tvmbuild.devices.ssh.program import find_files, machine_of_package
from tvmbuild.devices.ssh.session import SshSession, open_session
from tvmbuild.devices.ssh.trouble import explain_machine
from tvmbuild.devices.watch import GOVERNOR
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata
from tvmbuild.package.inputs import check_inputs
from tvmbuild.package.metadata import PackageInfo

Arrays = Mapping[str, np.ndarray]


# The state of a board without Python during a timing, read from files of its kernel.

Read = Callable[[str], str]
"""A function that returns the text of the file at a path on the board, or an empty text if the file is missing."""
_TICKS_S = 100.0
"""The number of ticks per second in /proc: 100 on every machine."""
_BUSY = (0, 1, 2, 5, 6, 7)
"""The indices of the times that count as busy in a line of /proc/stat: user, nice, system, irq, softirq, steal."""


class FilesWatch:
    """A counter of the CPU time of other programs on the board. It counts from its construction.

    ``read_file`` runs in the program on the board, whose own time does not count. ``machine`` names the CPU if
    /proc/cpuinfo does not.
    """

    def __init__(self, read_file: Read, machine: str) -> None:
        self._read_file = read_file
        self._machine = machine
        self._start = self._count()

    def read(self) -> MachineState:
        """Return the board's state, with the share of CPU time that other programs took since construction."""
        wall, busy, own = (end - start for end, start in zip(self._count(), self._start, strict=True))
        lines = self._read_file("/proc/stat").splitlines()
        cores = max(1, sum(line.startswith("cpu") for line in lines) - 1)
        load, heat = self._read_file("/proc/loadavg").split(), self._read_file("/sys/class/thermal/thermal_zone0/temp")
        return MachineState(
            cpu=find_cpu_name(self._read_file("/proc/cpuinfo")) or self._machine,
            cores=cores,
            governor=self._read_file(str(GOVERNOR)).strip() or None,
            load=float(load[0]) if load else None,
            others=round(min(1.0, max(0.0, busy - own) / (wall * cores)), 4) if busy > 0 else None,
            temperature_c=round(int(heat) / 1000, 1) if heat.strip() else None,
        )

    def _count(self) -> tuple[float, float, float]:
        """Return three times in seconds: wall clock, busy time of all cores, CPU time of the program on the board."""
        fields = self._read_file("/proc/stat").partition("\n")[0].split()[1:]
        busy = sum(int(fields[index]) for index in _BUSY if index < len(fields)) / _TICKS_S
        own = self._read_file("/proc/self/stat").rpartition(")")[2].split()[11:13]
        return time.monotonic(), busy, sum(map(int, own)) / _TICKS_S


_LENGTH = 8
"""The number of bytes of a length, sent before an output whose length depends on data."""


class BoundPackage:
    """A package that runs on a board without Python, with bound inputs. Its methods carry out a worker's commands."""

    def __init__(self, session: SshSession, info: PackageInfo, answers: Answers) -> None:
        self._session = session
        self._package = self._info = info
        self._answers = answers
        self._bound: Arrays = {}
        self._watch: FilesWatch | None = None

    def bind(self, inputs: Arrays) -> None:
        """Send the inputs to the board, where all following runs use them. Raises TvmbuildError if they do not fit."""
        info = self._package
        command: dict[str, object] = {"do": "bind"}
        if info.sizes is not None:
            shapes = {name: value.shape for name, value in inputs.items()}
            command["size"] = dict(info.sizes.plan(shapes, info.model).size.values)
            info = info.at_inputs(shapes)
            command["shapes"] = [list(each.shape) for each in info.inputs]
        check_inputs(info, inputs)
        content = b"".join(np.ascontiguousarray(inputs[each.name]).tobytes() for each in info.inputs)
        self._session.ask(command, self._answers.alive, content)
        self._bound, self._info = inputs, info

    def outputs(self, command: Mapping[str, Any]) -> dict[str, object]:
        """Run the package once on the bound inputs, and write the outputs to the local .npz that the command names."""
        self._session.ask(command, self._answers.alive)
        arrays: dict[str, Any] = {}
        for each in self._info.outputs:
            dtype, shape = np.dtype(each.dtype), list(each.shape)
            for count in each.counts:
                shape[count.axis] = int.from_bytes(self._session.receive(_LENGTH), "little")
            content = self._session.receive(dtype.itemsize * int(np.prod(shape)))
            arrays[f"output:{each.name}"] = np.frombuffer(content, dtype).reshape(shape)
        np.savez(command["path"], **arrays)
        return {}

    def run(self, command: Mapping[str, Any]) -> dict[str, object]:
        """Run the package once on the inputs in the command's .npz, write the outputs, and rebind the old inputs."""
        before = self._bound
        with np.load(command["inputs"], allow_pickle=False) as arrays:
            self.bind({name: arrays[name] for name in arrays.files})
        self.outputs({**command, "do": "outputs"})
        self.bind(before)
        return {}

    def pass_on(self, command: Mapping[str, Any]) -> dict[str, object]:
        """Pass the command on to the program on the board and return the program's answer."""
        return self._session.ask(command, self._answers.alive)

    def watch(self, _command: Mapping[str, Any]) -> dict[str, object]:
        """Begin to count the work of other programs on the board."""
        self._watch = FilesWatch(self._read, self._session.machine)
        return {}

    def machine(self, _command: Mapping[str, Any]) -> dict[str, object]:
        """Return the board's state since the call of :meth:`watch`."""
        if self._watch is None:
            raise ValueError("asked for the board's state before its watch")
        return asdict(self._watch.read())

    def memory(self, _command: Mapping[str, Any]) -> dict[str, object]:
        """Return the peak resident memory of the program on the board, in MiB."""
        return {"peak_mb": find_peak_mb(self._read("/proc/self/status"))}

    def _read(self, path: str) -> str:
        return str(self._session.ask({"do": "read", "path": path}, self._answers.alive)["text"] or "")


COMMANDS: dict[str, Callable[[BoundPackage, Mapping[str, Any]], dict[str, object]]] = {
    "outputs": BoundPackage.outputs,
    "run": BoundPackage.run,
    "warm_up": BoundPackage.pass_on,
    "time": BoundPackage.pass_on,
    "watch": BoundPackage.watch,
    "machine": BoundPackage.machine,
    "memory": BoundPackage.memory,
}
"""The commands of a worker that a board without Python supports, by the value of the command's key `do`."""


def serve(arguments: list[str]) -> None:
    """Connect to the board, start the package there, then answer commands until stdin ends."""
    die_with_parent()
    answers = Answers()
    _runtime, package, reference, threads, host = arguments
    try:
        info = read_metadata(Path(package))
        with open_session(host) as session:
            wanted = machine_of_package(info)
            if wanted != session.machine:
                raise explain_machine(host, session.machine, wanted)
            used = session.start(Path(package), int(threads), find_files(wanted, info.target.kind))
            board, frames = BoundPackage(session, info, answers), BoardFrames(session, info, answers.alive)
            with np.load(reference, allow_pickle=False) as arrays:
                board.bind({n.removeprefix("input:"): arrays[n] for n in arrays.files if n.startswith("input:")})
            answers.put({"threads": used})
            for line in sys.stdin:
                command = json.loads(line)
                name = command["do"]
                answer = (
                    FRAME_COMMANDS[name](frames, command) if name in FRAME_COMMANDS else COMMANDS[name](board, command)
                )
                answers.put(answer)
    except TvmbuildError as error:
        answers.fail(error)


if __name__ == "__main__":
    serve(sys.argv[1:])
