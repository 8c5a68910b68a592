"""The command `tvmbuild records merge-driver`: git calls it to merge a record file; --install registers it in git."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from tvmbuild.base.files import write_text
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.merge import merge_branches
from tvmbuild.records.store import DamagedRecordsError, read_task_file, write_task_file
from tvmbuild.records.task_file import TaskFile

NAME = "tvmbuild-records"
ATTRIBUTES = f"records/*/????????????????.json merge={NAME}"
"""The line of .gitattributes. It matches record files, named by a Task's key of 16 digits, but not locks or choices."""
TITLE = "union of measured schedules"
CONFLICT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="git's %%O %%A %%B %%P: ancestor, ours, theirs, name")
    parser.add_argument("--install", action="store_true", help="write .gitattributes and this clone's git config")


def run(args: argparse.Namespace) -> int:
    """Install the driver, or merge a record file for git. Return 0, or 1 for a conflict."""
    if args.install and not args.files:
        from tvmbuild.planning.project import find_root  # noqa: PLC0415 - git, which starts the driver often, does not need it

        return install(find_root(Path.cwd()))
    if len(args.files) not in {3, 4} or args.install:
        raise TvmbuildError(
            "a merge driver takes git's %O %A %B %P",
            "git calls it after `tvmbuild records merge-driver --install`; by hand, `tvmbuild records merge A B`",
        )
    ancestor, ours, theirs = (Path(name) for name in args.files[:3])
    return merge_for_git(ancestor, ours, theirs, (args.files[3:] or [str(ours)])[0])


def merge_for_git(ancestor: Path, ours: Path, theirs: Path, name: str) -> int:
    """Write the merge of both branches into ``ours`` and return 0.

    If a merge is impossible, leave the file as it is, print the reason and return 1. ``name`` is the file's path in the
    repository.
    """
    try:
        sides = _read_side(ours), _read_side(theirs)
        merged = _choose_task(sides, name) or merge_branches(_read_ancestor(ancestor), *sides)
    except TvmbuildError as error:
        reason = error.message.replace(str(ours), "our version").replace(str(theirs), "their version")
        print(f"{name}: {reason}", file=sys.stderr)
        return CONFLICT
    write_task_file(ours, merged)
    return 0


def _choose_task(sides: tuple[TaskFile, TaskFile], name: str) -> TaskFile | None:
    """Return the side with the Task whose key is the file's name, or None unless exactly one side has it.

    If one branch drops a Task's file and adds another Task's, git may mistake that for a renamed file. git then wants
    the other branch's changes of the dropped file merged into the new file.
    """
    own = [side for side in sides if side.key == Path(name).stem]
    if sides[0].key == sides[1].key or len(own) != 1:
        return None
    (dropped,) = (side.key for side in sides if side is not own[0])
    print(f"{name}: the records of Task {dropped}, which one branch dropped, are left out", file=sys.stderr)
    return own[0]


def _read_side(path: Path) -> TaskFile:
    file = read_task_file(path)
    if file is None:
        raise TvmbuildError(f"there is no file {path}")
    return file


def _read_ancestor(path: Path) -> TaskFile | None:
    """Return the common ancestor, or None, because git gives an empty file if both branches added the file."""
    try:
        return read_task_file(path)
    except DamagedRecordsError:
        return None


def install(root: Path) -> int:
    """Add the line to the project's .gitattributes and the driver to the clone's git config. Return 0."""
    command = f"{_own_command()} records merge-driver %O %A %B %P"
    for key, value in (("name", TITLE), ("driver", command)):
        _git(root, "config", f"merge.{NAME}.{key}", value)
    path = root / ".gitattributes"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if ATTRIBUTES in text.splitlines():
        print(f"{path.name} has the line already")
    else:
        write_text(path, text + ("" if text.endswith("\n") or not text else "\n") + ATTRIBUTES + "\n")
        print(f"wrote {path.name}: {ATTRIBUTES}")
    print(f"set in this clone's git config: merge.{NAME}.driver = {command}")
    return 0


def _own_command() -> str:
    """Return the command that starts this installation of tvmbuild, whatever environment is active when git merges."""
    script = Path(sys.executable).parent / "tvmbuild"
    return shlex.quote(str(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m tvmbuild"


def _git(root: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)  # noqa: S607
    except FileNotFoundError as error:
        raise TvmbuildError("there is no command git", "install git, or merge by `tvmbuild records merge`") from error
    if done.returncode:
        raise TvmbuildError(
            f"git {' '.join(arguments[:2])} failed: {done.stderr.strip()}", "run it in a clone of a git repository"
        )
