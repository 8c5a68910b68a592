"""The run of doit by `tvmbuild`, with checks of the command line that doit leaves out."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from doit.cmd_base import DodoTaskLoader
from doit.doit_cmd import DoitMain
from doit.task import Task

from tvmbuild.base.did_you_mean import find_nearest, find_nearest_pattern, is_pattern, suggest
from tvmbuild.doit_adapter.ending import end_run
from tvmbuild.doit_adapter.manner import Manner
from tvmbuild.doit_adapter.variables import check_variable
from tvmbuild.engine.executor import HERE, Executor
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root

WITHOUT_PROJECT = frozenset({"help", "tabcompletion", "dumpdb"})
SHOWING = frozenset({"list", "info", "help", "tabcompletion", "dumpdb"})
"""The commands that only print, so that nothing is lost if they end early."""
LOADER_OPTIONS = ("-f", "--file", "-d", "--dir", "-k", "--seek-file")


def run_doit(
    arguments: Sequence[str], own_commands: Sequence[str], executor: Executor = HERE, manner: Manner | None = None
) -> int:
    """Run doit in the project around the current folder, with steps run by the executor. Return doit's exit code.

    ``own_commands`` are suggested for misspelt words. Raises TvmbuildError for unknown variables, or without a project.
    """
    arguments, long = take_long(arguments)
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if equals and not name.startswith("-"):
            check_variable(name, value)
    doit = DoitMain()
    commands = [*own_commands, *doit.get_cmds()]
    arguments, folder = take_folder(arguments)
    if folder is not None:
        _enter(folder)
    elsewhere = any(argument.startswith(LOADER_OPTIONS) for argument in arguments)
    if not elsewhere and (not arguments or arguments[0] not in WITHOUT_PROJECT):
        root = _find_root(arguments[:1], commands)
        if not (root / "dodo.py").exists():
            raise TvmbuildError(f"no dodo.py in {root}", "`tvmbuild init` in an empty folder writes one to copy.")
        os.chdir(root)
    loader = _CheckedLoader(commands, executor, manner or Manner(long=long))
    doit.task_loader = loader
    with _end_with_reader() if arguments and arguments[0] in SHOWING else contextlib.nullcontext():
        return int(doit.run(list(arguments)) or 0)


def _find_root(first: Sequence[str], commands: Sequence[str]) -> Path:
    """Return the project's folder.

    If there is none, raise TvmbuildError. For a misspelt command it suggests the nearest one.
    """
    try:
        return find_root(Path.cwd())
    except TvmbuildError as error:
        nearest = next((find_nearest(word, commands) for word in first if word not in commands), None)
        raise TvmbuildError(error.message, f"{suggest(nearest)}{error.hint}") from error


def take_long(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments without a `-v` that stands by itself, and whether there was one.

    `-v` with a number after it is doit's own option: how much of the steps' output is shown.
    """
    following = [*arguments, ""][1:]
    alone = [name == "-v" and after not in {"0", "1", "2"} for name, after in zip(arguments, following, strict=True)]
    kept = [name for name, is_ours in zip(arguments, alone, strict=True) if not is_ours]
    return kept, any(alone)


def take_folder(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the arguments without `-d DIR`, and DIR or None.

    With only this option, doit would still look for dodo.py in the current folder. Beside `-f` or `-k`, `-d` is left
    to doit.
    """
    if any(argument.startswith(("-f", "--file", "-k", "--seek-file")) for argument in arguments):
        return list(arguments), None
    kept, folder = list[str](), None
    words = iter(arguments)
    for word in words:
        if word in {"-d", "--dir"}:
            folder = next(words, None)
        elif word.startswith("--dir="):
            folder = word.removeprefix("--dir=")
        elif word.startswith("-d"):
            folder = word.removeprefix("-d")
        else:
            kept.append(word)
    return kept, None if folder is None else Path(folder)


def _enter(folder: Path) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise TvmbuildError(f"-d {folder}: {error.strerror}", "name the project's folder") from error


@contextlib.contextmanager
def _end_with_reader() -> Iterator[None]:
    """Let the kernel end this process if the reader of its output is gone (`| head`). doit would show a traceback."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
        sys.stdout.flush()
    finally:
        signal.signal(signal.SIGPIPE, before)


class _CheckedLoader(DodoTaskLoader):  # type: ignore[misc]  # doit has no types
    """A loader of dodo.py that refuses names and patterns without a match, and expands patterns for every command."""

    def __init__(self, commands: Sequence[str], executor: Executor, manner: Manner) -> None:
        super().__init__()
        self._manner = manner
        self._commands = commands
        self._executor = executor

    def setup(self, opt_values: Mapping[str, object]) -> None:
        """Load dodo.py, and pass the executor to its project."""
        from tvmbuild.doit_adapter.loader import hand_in  # noqa: PLC0415 - `help` need not wait for the planner

        super().setup(opt_values)
        try:
            hand_in(self._executor, self.namespace, self._manner)
        except TvmbuildError as error:
            raise end_run(error) from error

    def load_tasks(self, cmd: object, pos_args: list[str]) -> list[Task]:
        """Load all tasks, and expand the patterns in ``pos_args``, doit's selection, in place."""
        tasks: list[Task] = super().load_tasks(cmd, pos_args)
        if not any(argument.startswith("-") for argument in pos_args):
            try:
                pos_args[:] = select_names(pos_args, tasks, self._commands)
            except TvmbuildError as error:
                raise end_run(error) from error
        return tasks


def select_names(wanted: Sequence[str], tasks: Sequence[Task], commands: Sequence[str]) -> list[str]:
    """Return the ``wanted`` tasks and files by name, with patterns expanded to the names of tasks.

    Raises TvmbuildError for a name or pattern without a match.
    """
    names = [task.name for task in tasks]
    known = {*names, *(target for task in tasks for target in task.targets)}
    selected: list[str] = []
    for argument in wanted:
        found = [argument] if argument in known else [name for name in names if fnmatchcase(name, argument)]
        if not found:
            raise _no_match(argument, names, commands)
        selected += found
    return selected


def _no_match(argument: str, names: Sequence[str], commands: Sequence[str]) -> TvmbuildError:
    if is_pattern(argument):
        message, nearest = f"no step matches {argument!r}", find_nearest_pattern(argument, names)
    else:
        message, nearest = f"no command, step or output {argument!r}", find_nearest(argument, [*names, *commands])
    return TvmbuildError(message, f"{suggest(nearest)}`tvmbuild list --all` shows every step.")
