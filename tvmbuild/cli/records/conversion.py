"""The access of `records import` and `records export` to MetaSchedule's database, through a process that has TVM."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping

from tvmbuild.base.processes import neutral_folder
from tvmbuild.errors import TvmbuildError

_CHILD = "tvmbuild.replay.json_database"


def convert(request: Mapping[str, object]) -> dict[str, int]:
    """Run an import or an export in a process that has TVM, and return the counts of its changes.

    ``request`` is the input of `tvmbuild.replay.json_database`. Raises TvmbuildError for a fault of the database.
    """
    with neutral_folder() as empty:
        done = subprocess.run(
            [sys.executable, "-m", _CHILD],
            cwd=empty,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise TvmbuildError(f"TVM crashed on {request['folder']} ({name})", "the database is damaged, or hostile")
    if done.returncode:
        raise RuntimeError(f"{_CHILD} ended with status {done.returncode}:\n{done.stderr[-4000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "error" in answer:
        raise TvmbuildError(answer["error"], answer["hint"])
    return {str(name): int(count) for name, count in answer.items()}
