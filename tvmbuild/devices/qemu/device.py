"""An emulated board as an opened device. Packages for another machine run here with right results, but slowly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tvmbuild.base.device_specs import QemuDevice
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.devices.device import Device
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.model_worker import Load, Worker, describe_load, run_worker
from tvmbuild.devices.qemu.board import EmulatedBoard, explain_absence, explain_code, find_board
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_metadata


@dataclass(frozen=True)
class EmulatedMachine:
    """The watch of an emulated board. It measures nothing, because times on the board mean nothing."""

    name: str

    def read(self) -> MachineState:
        """Return a state with only the board's name and this machine's cores."""
        return MachineState(f"qemu {self.name}", available_cores())


def open_qemu(spec: QemuDevice) -> Device:
    """Return the emulated board of ``spec`` as a device. Raises TvmbuildError if the board does not exist."""
    name = spec.arch
    board = find_board(name)
    if board is None:
        raise TvmbuildError(explain_absence(name))

    def watch(_workers: Sequence[Worker]) -> EmulatedMachine:
        return EmulatedMachine(name)

    return Device(f"the emulated board {name}", lambda load: start_emulated(board, load), watch, emulated=True)


@contextmanager
def start_emulated(board: EmulatedBoard, load: Load) -> Iterator[Worker]:
    """Start a worker process on the emulated board, and yield its worker.

    It has at most as many threads as this machine has cores. If qemu knows the CPU that the package is built for, it
    emulates this CPU: an instruction that the CPU lacks kills the process, as on a real board.
    """
    load = replace(load, threads=min(load.threads, available_cores()))
    target = read_metadata(load.model).target
    if (reason := explain_code(target.kind)) is not None:
        raise TvmbuildError(reason)
    cpu = str(target.attributes.get("mcpu", ""))
    command = [str(board.python), "-m", "tvmbuild.devices.serve_model", *describe_load(load)]
    with run_worker(load, command, {**board.variables(cpu), "TVM_NUM_THREADS": str(load.threads)}) as worker:
        yield worker
