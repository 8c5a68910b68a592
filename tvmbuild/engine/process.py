"""The run of one step in a new process with its own session, and the message about its failure."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tvmbuild.base.files import remove_leftovers
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import follow_output
from tvmbuild.base.steps import AnyStep
from tvmbuild.engine.display import show_progress
from tvmbuild.engine.leftovers import temporary_folder
from tvmbuild.errors import TvmbuildError, VerdictError, end_sentence

TAIL_LINES = 12
_SAYS_MORE = "The log says more."
CHECK_S = 1.0
KEPT_TVM_VARIABLES = frozenset({"TVM_LIBRARY_PATH"})
"""The TVM_* variables that a step's process inherits. This one says which TVM to load, as in the planner's probe. All
others come from the Step.
"""


@dataclass(frozen=True)
class Attendant:
    """The callbacks of the process that waits for a step."""

    show: Callable[[str], None]
    """A function that receives the step's progress."""
    check: Callable[[], None]
    """A function that is called every second. An exception from it ends the step."""


@dataclass(frozen=True)
class _Ending:
    """The end of a step's process: its exit status, the error reported on its pipe, and its last lines of output."""

    status: int
    report: str
    tail: tuple[str, ...]


def run_process(step: AnyStep, attendant: Attendant | None = None) -> None:
    """Run the step's stage in a new process. Raises TvmbuildError if it fails, with the reason and the log's path.

    However the step ends, all processes of its group are then dead and no temporary file of an output is left. Either
    all outputs are new or none is; after a VerdictError they are new. If doit itself is killed with -9, the next run
    repairs the outputs: they differ from the recorded state, so the step runs again.
    """
    remove_temporaries(step)
    before = {path: _stamp(path) for path in step.outputs.values()}
    complete = False
    try:
        with temporary_folder() as temporary:
            environment = _environment(step) | {"TMPDIR": temporary} | _hide_torch(step, Path(temporary))
            ending = _run(step, environment, attendant)
        if ending.status != 0:
            raise _explain(step, ending)
        missing = [path for path in step.outputs.values() if not path.exists()]
        if missing:
            log = Layout(step.root).log(step.id)
            raise TvmbuildError(f"{step.id} finished without writing {missing[0]}", f"{_SAYS_MORE} Log: {log}")
        complete = True
    except VerdictError:
        complete = True
        raise
    finally:
        remove_temporaries(step)
        if not complete:
            for path in (path for path, stamp in before.items() if _stamp(path) != stamp):
                path.unlink(missing_ok=True)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return a value that changes if the file is replaced, or None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_mtime_ns)


def remove_temporaries(step: AnyStep) -> None:
    """Remove the temporary files that an interrupted writer left beside the step's outputs."""
    for path in step.outputs.values():
        remove_leftovers(path)


def _run(step: AnyStep, environment: Mapping[str, str], attendant: Attendant | None) -> _Ending:
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "tvmbuild.stages", str(write_end)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=step.root,
            env=environment,
            pass_fds=(write_end,),
            start_new_session=True,
        )
    finally:
        os.close(write_end)
    try:
        with os.fdopen(read_end, "rb") as reports:
            tail = _attend(process, step, attendant)
            return _Ending(process.returncode, reports.read().decode(errors="replace"), tail)
    finally:
        if process.returncode is None:  # Ctrl-C may come before anything of the above waits for the process
            _kill_group(process)
            process.wait()


def _attend(process: subprocess.Popen[bytes], step: AnyStep, attendant: Attendant | None) -> tuple[str, ...]:
    """Send the Step, copy the process's output until it has ended, and return its last lines."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    latest: deque[str] = deque(maxlen=1)
    shown = contextlib.nullcontext(attendant.show) if attendant else show_progress(step.id)
    with shown as show:

        def tell(text: str) -> None:
            latest.append(text)
            show(text)

        reader = threading.Thread(target=_copy_output, args=(process.stdout, step, tell, tail), daemon=True)
        try:
            reader.start()
            _send(process, step)
            _wait(process, attendant)
        except KeyboardInterrupt:
            if step.stage == "tune" and latest:
                print(f"   {step.id}  stopped: {latest[0]}; every measurement is kept", flush=True)
            raise
        finally:
            # Also after success, because a helper that the stage left behind would hold the pipes and the device.
            _kill_group(process)
            process.wait()
            if reader.is_alive():
                reader.join()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # type: ignore[union-attr]
            process.stdout.close()  # type: ignore[union-attr]
        return tuple(tail)


def _hide_torch(step: AnyStep, folder: Path) -> dict[str, str]:
    """Return the environment variable that keeps the stage's processes from importing PyTorch.

    Only `simplify` may need PyTorch. If it is installed, tvm_ffi imports it, which takes 5 s and 500 MB for every
    process of a search.
    """
    if step.stage == "simplify":
        return {}
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "torch.py").write_text("raise ImportError('no stage but simplify needs PyTorch')\n", encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(hidden), os.environ.get("PYTHONPATH")]))}


def _environment(step: AnyStep) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT_TVM_VARIABLES or not name.startswith(("TVM_", "TVMBUILD_THREAD_POOL"))
    }
    # PYTHONSAFEPATH: a file called onnx.py in the project must not shadow a package.
    return kept | {"PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1", **step.environment}


def _send(process: subprocess.Popen[bytes], step: AnyStep) -> None:
    """Send the Step. The pipe stays open: its end tells the process's watcher that this process is dead."""
    data = pickle.dumps(step)
    with contextlib.suppress(BrokenPipeError):  # the process died at once; its exit status gives the reason
        process.stdin.write(f"{len(data):08x}".encode() + data)  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]


def _wait(process: subprocess.Popen[bytes], attendant: Attendant | None) -> None:
    if attendant is None:
        process.wait()
        return
    while process.poll() is None:
        attendant.check()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(CHECK_S)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _copy_output(stream: IO[bytes], step: AnyStep, show: Callable[[str], None], tail: deque[str]) -> None:
    """Copy the process's lines to its log, and its progress to ``show``, until every writer of the pipe is gone."""
    with _open_log(Layout(step.root).log(step.id)) as log:
        for line, is_progress in follow_output(stream, show):
            if not is_progress:
                tail.append(line)
            if log is not None:
                with contextlib.suppress(OSError):  # a full disk must not stop the reading
                    log.write(line + "\n")
                    log.flush()


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[IO[str] | None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        log = path.open("w", encoding="utf-8")
    except OSError:
        yield None  # the step itself reports that the folder cannot be written
        return
    try:
        yield log
    finally:
        with contextlib.suppress(OSError):
            log.close()


def _explain(step: AnyStep, ending: _Ending) -> TvmbuildError:
    log = f"Log: {Layout(step.root).log(step.id)}"
    if ending.report:
        report = json.loads(ending.report)
        hint, kind = report["hint"], VerdictError if report["kept"] else TvmbuildError
        return kind(report["message"], f"{end_sentence(hint)} {log}" if hint else f"{_SAYS_MORE} {log}")
    if ending.status == -signal.SIGKILL:
        return TvmbuildError(
            "its process was killed (SIGKILL), most likely because memory ran out",
            f"Run fewer steps at once (-n) or free memory. {log}",
        )
    last = "\n".join(f"  | {line}" for line in ending.tail)
    if ending.status < 0:
        return TvmbuildError(
            f"its process crashed ({signal.Signals(-ending.status).name})\n{last}", f"{_SAYS_MORE} {log}"
        )
    return TvmbuildError(f"a bug in tvmbuild, or in a library that it uses:\n{last}", f"{_SAYS_MORE} {log}")
