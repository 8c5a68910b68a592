"""The program of a local child process that relays the commands of a worker to a board by TVM's RPC.

It is started as ``python -m tvmbuild.devices.rpc.relay RUNTIME MODEL REFERENCE THREADS DEVICE``, where DEVICE is the
RpcDevice as JSON. It holds a session with the board and answers as :mod:`tvmbuild.devices.serve_model` does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.base.processes import die_with_parent
from tvmbuild.devices.answers import Answers
from tvmbuild.devices.rpc.session import BoardSession, open_session
from tvmbuild.errors import TvmbuildError


def serve(arguments: list[str]) -> None:
    """Open a session with a board, load the package there, then answer commands until stdin ends."""
    die_with_parent()
    answers = Answers()
    _runtime, model, reference, threads, device = arguments
    try:
        with answers.beating():
            session, _ = open_session(RpcDevice(**json.loads(device)), answers.fail)
        job = {"package": session.write(Path(model)), "reference": session.write(Path(reference))}
        answers.put(session.do({"job": "start", "threads": int(threads), **job}, answers.alive))
        for line in sys.stdin:
            answers.put(_obey(session, json.loads(line), answers))
    except TvmbuildError as error:
        answers.fail(error)


def _obey(session: BoardSession, command: dict[str, Any], answers: Answers) -> Mapping[str, object]:
    """Run the command on the board and return its answer.

    The command's file of inputs is copied to the board first, and its file of outputs is copied back afterwards.
    """
    there = dict(command)
    if "inputs" in command:
        there["inputs"] = session.write(Path(command["inputs"]))
    if "path" in command:
        there["path"] = session.new_name()
    answer = session.do({"job": "ask", "command": there}, answers.alive)
    if "path" in command:
        Path(command["path"]).write_bytes(session.read(there["path"]))
    for name in {"inputs", "path"} & there.keys():
        session.remove(there[name])
    return answer


if __name__ == "__main__":
    serve(sys.argv[1:])
