"""A step's own process: it reads the Step, runs its stage, and reports an error on the given pipe.

`tvmbuild.engine.process` starts it as ``python -m tvmbuild.stages FD``, with the descriptor of that pipe. Stdin carries
the Step (8 hex digits of length, then a pickle) and then stays open for as long as the parent lives.
"""

from __future__ import annotations

import errno
import faulthandler
import importlib
import json
import os
import pickle
import signal
import sys

from tvmbuild.base.processes import die_with_parent
from tvmbuild.base.steps import AnyStep, Step
from tvmbuild.errors import TvmbuildError, VerdictError
from tvmbuild.stages.table import STAGES

_LONGEST = 4000
"""The largest number of characters of a message or a hint. A pipe holds 64 KiB, and the parent reads it at the end."""
CONDITIONS = {
    errno.ENOSPC: "Make room on that disk, then run doit again.",
    errno.EDQUOT: "Make room within the quota, then run doit again.",
    errno.EROFS: "Make the build folder writable, or move the project.",
    errno.EACCES: "Give this user the permission, or move the project.",
    errno.EPERM: "Give this user the permission, or move the project.",
}


def main() -> int:
    """Run the step's stage. Return 0 if its outputs are written, or 1 after an error that the user can act on."""
    report_fd = int(sys.argv[1])
    os.set_inheritable(report_fd, False)
    step = _receive()
    die_with_parent()
    _watch_parent()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.pop(0)  # Python 3.10 puts the project's folder there
    stage = next(stage for stage in STAGES if stage.name == step.stage)
    try:
        module = importlib.import_module(stage.module)
        _crash_at_once()
        module.run(step)
    except TvmbuildError as error:
        return _report(report_fd, error)
    except MemoryError:
        return _report(report_fd, TvmbuildError("memory ran out", "Run fewer steps at once (-n) or free memory."))
    except OSError as error:
        if error.errno not in CONDITIONS:
            raise
        place = f"{error.filename}: " if error.filename else ""
        return _report(report_fd, TvmbuildError(f"{place}{error.strerror}", CONDITIONS[error.errno]))
    return 0


def _crash_at_once() -> None:
    """Print Python's traceback on SIGSEGV, without TVM's handler, which allocates memory and may wait for ever."""
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    faulthandler.enable()


def _report(fd: int, error: TvmbuildError) -> int:
    print(f"error: {error}")
    kept = isinstance(error, VerdictError)
    report = {"message": error.message[:_LONGEST], "hint": error.hint and error.hint[:_LONGEST], "kept": kept}
    os.write(fd, json.dumps(report).encode())
    return 1


def _receive() -> AnyStep:
    length = int(_read(8), 16)
    step = pickle.loads(_read(length))  # noqa: S301 - from our own parent
    if not isinstance(step, Step):
        raise TypeError(f"got {type(step).__name__}, expected a Step")
    return step


def _read(count: int) -> bytes:
    data = b""
    while len(data) < count:
        block = os.read(0, count - len(data))
        if not block:
            raise EOFError("the parent closed the pipe")
        data += block
    return data


def _watch_parent() -> None:
    """Start a process that waits for the end of the parent's pipe and then kills this process group."""
    group = os.getpgrp()
    if os.fork() == 0:
        os.closerange(1, 1024)
        os.read(0, 1)
        os.killpg(group, signal.SIGKILL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # the tools that a stage starts must not wait on that pipe
    os.close(null)


if __name__ == "__main__":
    sys.exit(main())
