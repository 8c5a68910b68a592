"""A client of TVM's RPC tracker, where boards register. It lists the boards and requests one. It needs no TVM.

The protocol is defined in `tvm/rpc/tracker.py`: both sides send a magic number, then JSON texts, each after its length.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.errors import TvmbuildError

CONNECT_S = 5.0
RESTART_S = 15.0
"""The time that a board's server needs at most to restart after a crash of a session, in seconds."""
_MAGIC = 0x2F271
_REQUEST, _SUMMARY, _SUCCESS = 4, 6, 0
_SERVER = "server:"


class NoBoardError(TvmbuildError):
    """The error if no board with the requested key is registered at the tracker."""


@dataclass(frozen=True)
class Boards:
    """The boards of one key."""

    addresses: tuple[str, ...] = ()
    """The addresses of the boards that are connected to the tracker, as host:port."""
    free: int = 0
    """The number of free boards."""
    waiting: int = 0
    """The number of clients that wait for a free board."""


@dataclass(frozen=True)
class Ticket:
    """The tracker's permission to open one session on one board."""

    host: str
    port: int
    key: str


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address host:port."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def list_boards(address: str) -> dict[str, Boards]:
    """Return a map key → boards from the tracker at ``address``. Raises TvmbuildError if no tracker answers there."""
    with _connect(address, CONNECT_S) as connection:
        summary = _ask(connection, [_SUMMARY])
    addresses: dict[str, list[str]] = {}
    for server in summary["server_info"]:
        key = str(server["key"]).removeprefix(_SERVER)
        addresses.setdefault(key, []).append(":".join(str(part) for part in server["addr"]))
    queues: Mapping[str, Any] = summary["queue_info"]
    return {
        key: Boards(tuple(sorted(found)), int(queue.get("free", 0)), int(queue.get("pending", 0)))
        for key, found in sorted(addresses.items())
        for queue in (queues.get(key, {}),)
    }


def find_boards(address: str, key: str) -> Boards:
    """Return the boards of ``key`` at the tracker at ``address``. Raises NoBoardError if there are none."""
    known = list_boards(address)
    if key in known:
        return known[key]
    names = f"it has {', '.join(known)}" if known else "it has no board at all"
    raise NoBoardError(
        f"the tracker at {address} knows no board with the key {key}: {names}",
        f"{suggest(find_nearest(key, known))}start one on the board: "
        f"`tvmbuild device serve --tracker {address} --key {key}`",
    )


def await_boards(address: str, key: str, seconds: float) -> Boards:
    """Return the boards of ``key`` like :func:`find_boards`, but wait up to ``seconds`` until there is one.

    A board is missing while its server is being restarted.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return find_boards(address, key)
        except NoBoardError:
            if time.monotonic() >= end:
                raise
        time.sleep(0.5)


def request_board(address: str, key: str, wait_s: float) -> Ticket:
    """Wait for a free board of ``key`` and return a ticket for it.

    Raises TvmbuildError if no board becomes free within ``wait_s`` seconds.
    """
    with _connect(address, wait_s) as connection:
        try:
            host, port, match = _ask(connection, [_REQUEST, key, "", 1])
        except TimeoutError as error:
            raise TvmbuildError(
                f"no board {key} of the tracker at {address} was free within {wait_s:g} s",
                f"see `tvmbuild device ls --tracker {address}`; wait_s of the target's device allows more",
            ) from error
    return Ticket(str(host), int(port), str(match))


@contextmanager
def _connect(address: str, limit_s: float) -> Iterator[socket.socket]:
    host, port = split_address(address)
    try:
        connection = socket.create_connection((host, port), CONNECT_S)
    except OSError as error:
        raise TvmbuildError(
            f"no RPC tracker answers at {address}: {error.strerror or error}",
            f"start one there: `tvmbuild device tracker --port {port}`, or correct the address",
        ) from error
    with connection:
        try:
            connection.sendall(struct.pack("<i", _MAGIC))
            if struct.unpack("<i", _receive(connection, 4))[0] != _MAGIC:
                raise ConnectionError("it does not speak the protocol of a tracker")
            connection.settimeout(limit_s)
            yield connection
        except TimeoutError as error:
            raise TvmbuildError(f"the RPC tracker at {address} gave no answer within {limit_s:g} s") from error
        except (OSError, ValueError) as error:
            raise TvmbuildError(
                f"the program at {address} is not an RPC tracker: {error}", "correct the address in targets.yaml"
            ) from error


def _ask(connection: socket.socket, question: list[object]) -> Any:
    text = json.dumps(question).encode()
    connection.sendall(struct.pack("<i", len(text)) + text)
    (length,) = struct.unpack("<i", _receive(connection, 4))
    status, *answer = json.loads(_receive(connection, length))
    if status != _SUCCESS:
        raise ValueError(f"it answers {status}")
    return answer[0]


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        block = connection.recv(count - len(data))
        if not block:
            raise ConnectionError("it closed the connection")
        data += block
    return data
