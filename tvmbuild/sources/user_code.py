"""The errors of the user's own code, described by the files and lines of that code."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path

from tvmbuild.base.source_specs import TORCH
from tvmbuild.errors import TvmbuildError

NOT_THEIRS = (Path(sysconfig.get_paths()["stdlib"]), Path(__file__).parents[1])
"""The folders of Python's own code and of tvmbuild's, which are not the user's even inside the project's folder."""
MAX_FRAMES = 6
MAX_CAUSE = 300
EXTRAS = dict.fromkeys(TORCH.distributions, TORCH.name)
"""A Python module → the extra of tvmbuild that installs it."""

_CRASHED_AT = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)


def explain_exception(error: BaseException, script: Path, root: Path) -> TvmbuildError:
    """Return an error that names the user's exception, and the lines in the project's own files that led to it."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if is_own(Path(frame.filename), root, script)
    ]
    if isinstance(error, SyntaxError) and error.filename is not None:
        place = f"{show_path(Path(error.filename), root)}:{error.lineno}"
    elif frames:
        place = f"{show_path(Path(frames[-1].filename), root)}:{frames[-1].lineno}: in {frames[-1].name}"
    else:
        place = show_path(script, root)
    lines = [
        f"\n  | {show_path(Path(frame.filename), root)}:{frame.lineno}: in {frame.name}: {frame.line}"
        for frame in (frames[-MAX_FRAMES:] if len(frames) > 1 else ())
    ]
    return TvmbuildError(f"{place}: {_show_cause(error)}{''.join(lines)}", _find_remedy(error, script, root))


def is_own(path: Path, root: Path, script: Path) -> bool:
    """Return whether the file is in the project or beside the script, and does not belong to an installed library."""
    if {"site-packages", "dist-packages"} & set(path.parts) or any(map(path.is_relative_to, NOT_THEIRS)):
        return False
    return path.is_relative_to(root) or path.is_relative_to(script.parent)


def show_path(path: Path, root: Path) -> str:
    """Return the path as models.yaml would write it."""
    return os.path.relpath(path, root)


def find_crash(trace: Path, script: Path, root: Path) -> str | None:
    """Return the place in the user's code that faulthandler's trace in the file ``trace`` names, or None."""
    try:
        text = trace.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    for match in _CRASHED_AT.finditer(text):  # the most recent call first
        if is_own(Path(match["file"]), root, script):
            return f"{show_path(Path(match['file']), root)}:{match['line']}: in {match['function']}"
    return None


def _show_cause(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it called sys.exit({'' if error.code is None else repr(error.code)})"
    text = str(error.msg if isinstance(error, SyntaxError) else error).strip()
    first = text.splitlines()[0] if text else ""
    short = first if len(first) <= MAX_CAUSE else f"{first[:MAX_CAUSE]}…"
    return f"{type(error).__name__}: {short}" if short else type(error).__name__


def _find_remedy(error: BaseException, script: Path, root: Path) -> str:
    if type(error).__name__ == "EncodeError":  # protobuf's
        return "Its ONNX model is most likely larger than 2 GB: models that large are not supported."
    missing = _find_missing(error)
    if missing is None:
        return "Correct the function."
    module = missing.partition(".")[0]
    if module in EXTRAS:
        return f"Install it: `pip install 'tvmbuild[{EXTRAS[module]}]'`, with the pip of {sys.executable}."
    beside = show_path(script.parent / f"{module}.py", root)
    return f"Install what brings `{module}` with the pip of {sys.executable}, or, if it is yours, put it at {beside}."


def _find_missing(error: BaseException) -> str | None:
    """Return the module that the error, or one of its causes, could not import, or None."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError) and cause.name:
            return cause.name
        cause = cause.__cause__
    return None
