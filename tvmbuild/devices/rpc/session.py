"""The client's end of a session with a board, which sends files and jobs and receives results.

A process must have only one session: a call that the board does not answer cannot be cancelled, so after
``timeout_s`` the process must end.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from tvm import rpc

from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.devices.rpc.protocol import PREFIX, PROTOCOL, BoardInfo, find_tvm
from tvmbuild.devices.rpc.tracker import RESTART_S, Ticket, await_boards, request_board
from tvmbuild.errors import TvmbuildError

_CHUNK = 1 << 20
_POLL_S = 2.0

GiveUp = Callable[[DeviceLostError], None]


class BoardSession:
    """An open session with a board. If a call takes longer than ``spec.timeout_s``, a thread calls ``give_up``.

    A method raises DeviceLostError if the connection ends.
    """

    def __init__(self, remote: Any, spec: RpcDevice, give_up: GiveUp) -> None:
        self._remote = remote
        self._spec = spec
        self._give_up = give_up
        self._made = 0

    def describe(self) -> BoardInfo:
        """Return the board's description of itself. Raises TvmbuildError if the board's server is not tvmbuild's."""
        try:
            with self._limited():
                self._remote.get_function(PREFIX + "describe")
        except AttributeError as error:
            raise TvmbuildError(
                f"the board {self._spec.key} runs TVM's plain RPC server",
                f"start ours instead: `tvmbuild device serve --tracker {self._spec.tracker} --key {self._spec.key}`",
            ) from error
        told = json.loads(self._call("describe"))
        return BoardInfo(**{field.name: told.get(field.name) for field in fields(BoardInfo)})

    def write(self, path: Path) -> str:
        """Copy a file to the session's folder on the board, and return its name there, which is unique."""
        self._made += 1
        name = f"{self._made}-{path.name}"
        with path.open("rb") as file:
            while block := file.read(_CHUNK):
                self._call("write", name, bytearray(block))
        return name

    def new_name(self) -> str:
        """Return an unused name for an .npz that the board will write into the session's folder."""
        self._made += 1
        return f"{self._made}-out.npz"

    def read(self, name: str) -> bytes:
        """Return the content of a file in the session's folder on the board."""
        content = b""
        while block := bytes(self._call("read", name, len(content), _CHUNK)):
            content += block
        return content

    def remove(self, name: str) -> None:
        """Remove a file from the session's folder on the board, if it exists."""
        self._call("remove", name)

    def do(self, job: Mapping[str, object], beat: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Run a job on the board and return its result. ``beat`` is called every 2 s meanwhile.

        Raises TvmbuildError if the board reports an error.
        """
        self._call("submit", json.dumps(job))
        while True:
            answer: dict[str, Any] = json.loads(self._call("poll", _POLL_S))
            if "error" in answer:
                raise TvmbuildError(f"on the board {self._spec.key}: {answer['error']}", answer.get("hint"))
            if "waiting" not in answer:
                return answer
            beat()

    def _call(self, name: str, *arguments: object) -> Any:
        with self._limited():
            try:
                return self._remote.get_function(PREFIX + name)(*arguments)
            except (RuntimeError, OSError) as error:
                raise self._explain_loss(_say_why(str(error))) from error

    @contextmanager
    def _limited(self) -> Iterator[None]:
        seconds = self._spec.timeout_s
        error = self._explain_loss(f"it gave no answer within {seconds:g} s")
        timer = threading.Timer(seconds, self._give_up, [error])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _explain_loss(self, reason: str) -> DeviceLostError:
        where = f"the board {self._spec.key} of the tracker at {self._spec.tracker}"
        return DeviceLostError(
            f"the session with {where} was lost: {reason}",
            f"`tvmbuild device ls --tracker {self._spec.tracker}` shows whether it is back; its server's log says why",
        )


def _say_why(text: str) -> str:
    """Return a short reason from the text of TVM's error.

    TVM's text does not say that the connection ended; it is recognised by the missing answer.
    """
    # `code=1` is the protocol's kShutdown.
    ended = any(word in text for word in ("kShutdown", "code=1", "SockChannel", "Connection reset"))
    return "the board's server ended it" if ended else text.strip().splitlines()[0]


def open_session(spec: RpcDevice, give_up: GiveUp) -> tuple[BoardSession, BoardInfo]:
    """Open a session with a free board of the key, and return it with the board's description.

    Waits for a busy board, and for a board whose server is being restarted. Raises TvmbuildError if no board becomes
    free within ``spec.wait_s``, or if its versions of TVM or of the protocol differ from this machine's.
    """
    tracker, key = str(spec.tracker), str(spec.key)
    await_boards(tracker, key, min(spec.wait_s, RESTART_S))
    session = BoardSession(connect_board(request_board(tracker, key, spec.wait_s), spec), spec, give_up)
    info = session.describe()
    _check_versions(info, spec)
    return session, info


def connect_board(ticket: Ticket, spec: RpcDevice) -> Any:
    """Open TVM's own RPC session on the board of the ticket. Raises DeviceLostError if the board does not answer."""
    try:
        return rpc.connect(ticket.host, ticket.port, ticket.key, spec.session_s)
    except (RuntimeError, OSError) as error:
        raise DeviceLostError(
            f"the board {spec.key} at {ticket.host}:{ticket.port} opens no session: {str(error).splitlines()[0]}",
            f"see that its port can be reached from here, and that its TVM is {find_tvm()}, like this machine's",
        ) from error


def _check_versions(info: BoardInfo, spec: RpcDevice) -> None:
    ours = find_tvm()
    if info.tvm != ours:
        raise TvmbuildError(
            f"the board {spec.key} has TVM {info.tvm}, this machine {ours}: their code does not fit together",
            f"on the board: `pip install apache-tvm=={ours}`, then start `tvmbuild device serve` again",
        )
    if info.protocol != PROTOCOL:
        raise TvmbuildError(
            f"the board {spec.key} runs tvmbuild {info.tvmbuild}, which speaks another protocol than this machine's",
            "install the same version of tvmbuild on both",
        )
