"""The program of a local child process that times candidates on a board, in a session that it holds.

It is started as ``python -m tvmbuild.devices.rpc.timer DEVICE KIND THREADS``, where DEVICE is the RpcDevice as JSON and
KIND the target's kind. First it answers with the device class of the board. Then each line of stdin is a job for the
board, `time` or `compare`, which names libraries by their paths on this machine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.base.processes import die_with_parent
from tvmbuild.devices.answers import Answers
from tvmbuild.devices.rpc.protocol import BoardInfo
from tvmbuild.devices.rpc.session import BoardSession, open_session
from tvmbuild.errors import TvmbuildError

LIBRARIES = ("library", "workload")


def serve(arguments: list[str]) -> None:
    """Open a session with a board, report its device class, then pass jobs on to the board until stdin ends."""
    die_with_parent()
    answers = Answers()
    spec, kind, threads = RpcDevice(**json.loads(arguments[0])), arguments[1], int(arguments[2])
    job = {"kind": kind, "threads": threads}
    try:
        with answers.beating():
            session, board = open_session(spec, answers.fail)
        _check_cores(board, threads, spec)
        found = session.do({"job": "find_class", **job}, answers.alive)["device_class"]
        answers.put({"device_class": found or board.cpu})
        for line in sys.stdin:
            answers.put(_pass_on(session, {**json.loads(line), **job}, answers))
    except TvmbuildError as error:
        answers.fail(error)


def _check_cores(board: BoardInfo, threads: int, spec: RpcDevice) -> None:
    if board.cores < threads:
        raise TvmbuildError(
            f"the board {spec.key} has {board.cores} cores, and the target asks for {threads} threads",
            "correct num-cores in targets.yaml",
        )


def _pass_on(session: BoardSession, job: dict[str, Any], answers: Answers) -> dict[str, Any]:
    """Run the job on the board and return its answer. The libraries are copied there and removed afterwards."""
    copies = {role: session.write(Path(job[role])) for role in LIBRARIES if role in job}
    answer = session.do({**job, **copies}, answers.alive)
    for name in copies.values():
        session.remove(name)
    return answer


if __name__ == "__main__":
    serve(sys.argv[1:])
