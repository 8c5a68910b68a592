"""Boards behind an RPC tracker as an opened device: `device: {rpc: {tracker: host:port, key: pi4}}`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.base.progress import report_progress
from tvmbuild.devices.device import Device
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.model_worker import Load, Worker, describe_load, run_worker
from tvmbuild.devices.rpc.tracker import RESTART_S, await_boards


def open_rpc(spec: RpcDevice) -> Device:
    """Return all boards of the key as one device. No connection is opened yet."""
    return Device(f"{spec.key} at {spec.tracker}", partial(start_on_board, spec), BoardWatch, here=False)


def lock_name(spec: RpcDevice) -> str:
    """Return the name of the lock that all boards of the key share."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", f"rpc-{spec.tracker}-{spec.key}")


@contextmanager
def start_on_board(spec: RpcDevice, load: Load) -> Iterator[Worker]:
    """Load a package on a board of the key, and yield its worker. The key's lock is held until the context ends.

    Waits for a free board. Raises TvmbuildError if the tracker, a board of the key or a free board is missing.
    """
    report_progress(f"looking for a board {spec.key}")
    boards = await_boards(spec.tracker, spec.key, RESTART_S)
    with device_lock(lock_name(spec), exclusive=True):
        if not boards.free:
            report_progress(f"waiting for a free board {spec.key}")
        command = [sys.executable, "-m", "tvmbuild.devices.rpc.relay", *describe_load(load), json.dumps(asdict(spec))]
        # Only the runtime library: it has TVM's RPC, and starts faster.
        with run_worker(load, command, {"TVM_USE_RUNTIME_LIB": "1"}) as worker:
            yield worker


class BoardWatch:
    """A watch of a board's state through its only worker, which is paused before and after each use."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        (self._worker,) = workers
        self._worker.resume()
        self._worker.watch()
        self._worker.pause()

    def read(self) -> MachineState:
        """Return the board's state, with the work of other programs since construction."""
        self._worker.resume()
        machine = self._worker.read_machine()
        self._worker.pause()
        return machine
