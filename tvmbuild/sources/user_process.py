"""The run of the user's function in its own process. `tvmbuild/sources/user_answer.py` is that process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.files import write_json
from tvmbuild.base.processes import neutral_folder
from tvmbuild.base.progress import report_progress
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.user_code import find_crash

REQUEST, RESULT, ERROR, CRASH = "request.json", "result", "error.json", "crash.txt"
"""The files of the folder through which the two processes communicate."""


@dataclass(frozen=True)
class UserCall:
    """A call of a function in a Python file of the project."""

    module: str
    """The module that is started. It calls `user_answer.answer`."""
    root: Path
    """The project's root, in which the function runs."""
    script: str
    """The path of the Python file, relative to the root."""
    function: str
    wanted: str = "model"
    """The result in a word."""
    remedies: tuple[str, str] = ("", "")
    """The remedies if memory runs out, and if the function ends its process."""

    @property
    def shown(self) -> str:
        """The function as models.yaml names it."""
        return f"{self.script}:{self.function}"


def call_user(call: UserCall, request: dict[str, Any], folder: Path) -> Path:
    """Run the function on the ``request``, which is plain data, and return the path of the result in ``folder``.

    The function's output goes to the step's log, like the output of this process. Raises TvmbuildError if the function
    fails, and if its process ends without a result.
    """
    whole = {"root": str(call.root), "script": call.script, "function": call.function, **request}
    write_json(folder / REQUEST, whole)
    report_progress(f"running {call.shown}")
    with device_lock("local", exclusive=False), neutral_folder() as neutral:
        command = [sys.executable, "-m", call.module, str(folder)]
        status = subprocess.run(command, cwd=neutral, stdin=subprocess.DEVNULL, check=False).returncode
    if (folder / ERROR).exists():
        error = json.loads((folder / ERROR).read_text(encoding="utf-8"))
        raise TvmbuildError(error["message"], error["hint"])
    if not (folder / RESULT).exists():  # a crash after the result is written, while Python ends, does no harm
        raise _explain_ending(status, call, find_crash(folder / CRASH, call.root / call.script, call.root))
    return folder / RESULT


def _explain_ending(status: int, call: UserCall, crash: str | None) -> TvmbuildError:
    at = f"{crash}: " if crash else ""
    memory, ending = call.remedies
    if status == -signal.SIGKILL:
        return TvmbuildError(f"{at}{call.shown} was killed (SIGKILL), most likely because memory ran out", memory)
    if status < 0:
        return TvmbuildError(
            f"{at}{call.shown} crashed with {signal.Signals(-status).name}",
            "Look for the library that did at the end of the log.",
        )
    return TvmbuildError(
        f"{at}{call.shown} ended its process with the status {status} and returned no {call.wanted}", ending
    )
