"""A program that prints one line of JSON for each of COUNT boards of a key, with the board's description of itself.

It is started as `python -m tvmbuild.devices.rpc.info DEVICE COUNT`, where DEVICE is the RpcDevice as JSON. If a board
does not answer, its line has the reason.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any

from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.base.processes import die_with_parent
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.devices.rpc.session import BoardSession, connect_board
from tvmbuild.devices.rpc.tracker import request_board
from tvmbuild.errors import TvmbuildError


def main(arguments: list[str]) -> int:
    """Print the descriptions. All sessions stay open until the end, so that each one is on a different board."""
    die_with_parent()
    spec, count = RpcDevice(**json.loads(arguments[0])), int(arguments[1])
    sessions: list[BoardSession] = []
    for _ in range(count):
        found: dict[str, Any] = {}
        try:
            ticket = request_board(str(spec.tracker), str(spec.key), spec.wait_s)
            found["board"] = f"{ticket.host}:{ticket.port}"
            sessions.append(BoardSession(connect_board(ticket, spec), spec, _give_up))
            found |= asdict(sessions[-1].describe())
        except TvmbuildError as error:
            found["error"] = error.message
        print(json.dumps(found), flush=True)
    return 0


def _give_up(error: DeviceLostError) -> None:
    print(json.dumps({"error": error.message}), flush=True)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
