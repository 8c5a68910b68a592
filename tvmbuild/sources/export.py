"""The run of the user's own function, which returns a model, in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.files import write_json
from tvmbuild.base.processes import neutral_folder
from tvmbuild.base.progress import report_progress
from tvmbuild.base.source_specs import Export, Source
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.fetch import fetch
from tvmbuild.sources.user_code import find_crash

REQUEST, RESULT, ERROR, CRASH = "request.json", "model.onnx", "error.json", "crash.txt"
"""The files of the folder through which the two processes communicate."""


@contextmanager
def obtain_model(source: Source, root: Path) -> Iterator[Path]:
    """Yield the local file of the model of ``source``, which is fetched, or returned by the user's function.

    The file of a returned model is removed when the context ends. A file of another format than ONNX keeps its original
    name. Raises TvmbuildError if the model cannot be fetched, or if the function fails.
    """
    with TemporaryDirectory(prefix="tvmbuild-export-") as folder:
        if source.export is not None:
            yield _export(source, source.export, root, Path(folder))
        elif source.list_readers():
            yield _hand_over(source, root, Path(folder) / "named")
        else:
            yield fetch(source, root)


def _export(source: Source, export: Export, root: Path, folder: Path) -> Path:
    files = {file.name: str(_hand_over(file.source, root, folder / "files" / file.name)) for file in export.files}
    request = {
        "root": str(root),
        "script": source.location,
        "function": export.function,
        "arguments": {name: json.loads(value) for name, value in export.arguments.items()},
        "files": files,
    }
    write_json(folder / REQUEST, request)
    shown = f"{source.location}:{export.function}"
    report_progress(f"running {shown}")
    with device_lock("local", exclusive=False):
        status = _run(folder)
    if (folder / ERROR).exists():
        error = json.loads((folder / ERROR).read_text(encoding="utf-8"))
        raise TvmbuildError(error["message"], error["hint"])
    if not (folder / RESULT).exists():  # a crash after the result is written, while Python ends, does no harm
        raise _explain_ending(status, shown, find_crash(folder / CRASH, root / source.location, root))
    return folder / RESULT


def _hand_over(source: Source, root: Path, folder: Path) -> Path:
    """Return the path of the fetched file under its original name, in ``folder``.

    Some libraries detect a format by the name, and the cache names files by their digests.
    """
    path = fetch(source, root).absolute()
    if source.kind == "path":
        return path
    folder.mkdir(parents=True)
    named = folder / source.name_file()
    named.symlink_to(path)
    return named


def _run(folder: Path) -> int:
    """Run the user's function on the request in ``folder``, and return the exit status of its process.

    The function's output goes to the step's log, like the output of this process.
    """
    with neutral_folder() as neutral:
        command = [sys.executable, "-m", "tvmbuild.sources.export_process", str(folder)]
        return subprocess.run(command, cwd=neutral, stdin=subprocess.DEVNULL, check=False).returncode


def _explain_ending(status: int, shown: str, crash: str | None) -> TvmbuildError:
    at = f"{crash}: " if crash else ""
    if status == -signal.SIGKILL:
        return TvmbuildError(
            f"{at}{shown} was killed (SIGKILL), most likely because memory ran out",
            "Free memory, or export a smaller model.",
        )
    if status < 0:
        return TvmbuildError(
            f"{at}{shown} crashed with {signal.Signals(-status).name}",
            "Look for the library that did at the end of the log.",
        )
    return TvmbuildError(
        f"{at}{shown} ended its process with the status {status} and returned no model",
        "Leave out os._exit: the function must return an onnx.ModelProto.",
    )
