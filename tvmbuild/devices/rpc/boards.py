"""A timer of candidates on all boards of a key. The boards time one candidate each, at the same time.

If a board is lost, the others go on.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import Any

from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.devices.candidate_timer import NoDeviceError
from tvmbuild.devices.candidates import Argument, Timing
from tvmbuild.devices.conversation import Conversation, DeviceLostError, converse
from tvmbuild.devices.rpc.tracker import RESTART_S, await_boards, find_boards
from tvmbuild.errors import TvmbuildError

PAUSE_S = 10.0
"""The pause between two attempts to get a lost board back, and between two looks for new boards, in seconds."""
VARIABLES = {"TVM_USE_RUNTIME_LIB": "1"}
"""The child's environment: it loads only TVM's runtime library, which has the RPC client and starts faster."""


@dataclass(frozen=True)
class _Job:
    command: Mapping[str, object]
    result: Future[dict[str, Any]]


class _Slot:
    """The place of one board in the timer: the queue of the thread that serves it. The job None ends the thread."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.error: TvmbuildError | None = None
        """The reason why the slot has no board now. None if it has one, or has not asked yet."""
        self.board: Conversation | None = None


class BoardTimer:
    """A timer of candidates on all boards of a key, including boards that join later.

    Several threads may call it at once. ``kind`` is the target's kind, and ``threads`` the number of threads of a
    candidate. Raises TvmbuildError if the tracker or a board of the key is missing.
    """

    def __init__(self, spec: RpcDevice, kind: str, threads: int) -> None:
        boards = await_boards(str(spec.tracker), str(spec.key), RESTART_S)
        self._spec = spec
        self._kind = kind
        self._threads = threads
        self._change = threading.Condition()
        self._over = threading.Event()
        self._idle: list[_Slot] = []
        self._slots: list[_Slot] = []
        # A process dies with the thread that has started it, so each slot's thread lives to the end.
        self._workers: list[threading.Thread] = []
        self._add_slots(len(boards.addresses))
        self._watcher = threading.Thread(target=self._watch_tracker, daemon=True)
        self._watcher.start()

    @property
    def width(self) -> int:
        """Return the largest number of boards so far, which is the number of candidates to time at once."""
        return len(self._slots)

    def time(self, library: str, arguments: tuple[Argument, ...], timing: Timing) -> list[float]:
        """Time a candidate on a board and return its samples in seconds per call.

        Raises RuntimeError if the candidate fails, TimeoutError if it hangs, and NoDeviceError or DeviceLostError if no
        board is left for it.
        """
        answer = self._run({"job": "time", "library": library, "arguments": arguments, "timing": asdict(timing)})
        return [float(each) for each in answer["seconds"]]

    def compare(self, workload: str, library: str, arguments: tuple[Argument, ...]) -> str | None:
        """Return how the outputs of ``library`` differ from those of ``workload`` on a board, or None if they agree."""
        answer = self._run({"job": "compare", "workload": workload, "library": library, "arguments": arguments})
        fault: str | None = answer["fault"]
        return fault

    def close(self) -> None:
        """End all sessions, including those of boards that are timing a candidate."""
        self._over.set()
        for slot in self._slots:
            slot.jobs.put(None)
            if slot.board is not None:
                slot.board.signal(signal.SIGKILL)
        with self._change:
            self._change.notify_all()
        for thread in (self._watcher, *self._workers):
            thread.join(PAUSE_S)

    def _run(self, command: Mapping[str, object]) -> dict[str, Any]:
        """Return a board's answer to the command. If that board is lost, another one gets the command, once."""
        try:
            answer = self._ask(command)
        except DeviceLostError:
            answer = self._ask(command)
        if "failed" in answer:
            raise (TimeoutError if answer.get("timeout") else RuntimeError)(answer["failed"])
        return answer

    def _ask(self, command: Mapping[str, object]) -> dict[str, Any]:
        job = _Job(command, Future())
        self._take().jobs.put(job)
        return job.result.result()

    def _take(self) -> _Slot:
        """Wait for an idle slot and return the one that became idle last.

        Thus candidates that come one after the other all run on the same board. Raises NoDeviceError if no slot has a
        board.
        """
        with self._change:
            while not self._idle:
                errors = [slot.error for slot in self._slots if slot.error is not None]
                if len(errors) == len(self._slots):
                    raise NoDeviceError(errors[0].message, errors[0].hint)
                if self._over.is_set():
                    raise NoDeviceError("the search is over")
                self._change.wait()
            return self._idle.pop()

    def _watch_tracker(self) -> None:
        """Add a slot for each board that joins the tracker, until the timer is closed."""
        while not self._over.wait(PAUSE_S):
            with contextlib.suppress(TvmbuildError):  # a caller that waits for a board reports the error
                self._add_slots(len(find_boards(str(self._spec.tracker), str(self._spec.key)).addresses))

    def _add_slots(self, boards: int) -> None:
        for _ in range(len(self._slots), boards):
            slot = _Slot()
            self._slots.append(slot)
            self._workers.append(threading.Thread(target=self._serve, args=[slot], daemon=True))
            self._workers[-1].start()

    def _serve(self, slot: _Slot) -> None:
        """Serve the slot in its thread until the timer is closed. If its board is lost, request another."""
        while not self._over.is_set():
            self._serve_session(slot)

    def _serve_session(self, slot: _Slot) -> None:
        try:
            with converse(_command(self._spec, self._kind, self._threads), VARIABLES, "candidates") as slot.board:
                slot.board.read(self._spec.wait_s + self._spec.timeout_s)
                self._serve_board(slot, slot.board)
        except TvmbuildError as error:
            with self._change:
                slot.error = error
                self._change.notify_all()
            self._over.wait(PAUSE_S)

    def _serve_board(self, slot: _Slot, board: Conversation) -> None:
        """Run the slot's jobs on the board until the board is lost or the timer is closed."""
        self._put_back(slot)
        while (job := slot.jobs.get()) is not None:
            try:
                answer = board.ask(job.command)
            except TvmbuildError as error:
                job.result.set_exception(DeviceLostError(error.message, error.hint))
                return
            self._put_back(slot)
            job.result.set_result(answer)

    def _put_back(self, slot: _Slot) -> None:
        with self._change:
            slot.error = None
            self._idle.append(slot)
            self._change.notify()


def find_board_class(spec: RpcDevice, kind: str) -> str:
    """Ask one of the key's boards for its device class: LLVM's name of the CPU, or the driver's name of the GPU."""
    await_boards(str(spec.tracker), str(spec.key), RESTART_S)
    try:
        return _read_class(spec, kind)
    except DeviceLostError:
        return _read_class(spec, kind)


def _read_class(spec: RpcDevice, kind: str) -> str:
    with converse(_command(spec, kind, 1), VARIABLES, "candidates") as board:
        return str(board.read(spec.wait_s + spec.timeout_s)["device_class"])


def _command(spec: RpcDevice, kind: str, threads: int) -> list[str]:
    return [sys.executable, "-m", "tvmbuild.devices.rpc.timer", json.dumps(asdict(spec)), kind, str(threads)]
