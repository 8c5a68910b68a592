"""Temporary folders of stages, and the removal of a killed doit's leftovers: these folders, and partial downloads."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tvmbuild.base.layout import downloads_dir
from tvmbuild.errors import TvmbuildError

PREFIX = "tvmbuild-step-"
OLD_S = 24 * 3600.0


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Yield a new folder for a stage's TMPDIR and remove it afterwards, because a killed stage cannot do that itself.

    A lock marks the folder as in use, at any age. The kernel drops the lock with this process. The folder's name is
    chosen first, so that a Ctrl-C right after its creation removes it too. Raises TvmbuildError if the folder cannot be
    made.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(8)}"
    except OSError as error:
        raise _explain(error) from error
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise _explain(error) from error
        with contextlib.suppress(OSError):  # a file system without locks: the folder is safe for a day
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield str(folder)


def _explain(error: OSError) -> TvmbuildError:
    return TvmbuildError(
        f"no temporary folder: {error.strerror or error}", "Make room in it, or set TMPDIR to another."
    )


def remove_old_leftovers() -> None:
    """Remove the user's own leftovers older than a day. Files that cannot be read or removed are skipped silently."""
    before = time.time() - OLD_S
    for path in _list_old(Path(tempfile.gettempdir()), PREFIX, before):
        if path.is_dir() and not _is_in_use(path):
            shutil.rmtree(path, ignore_errors=True)
    for path in _list_old(downloads_dir(), ".", before):
        if path.suffix == ".tmp" and path.is_file():
            with contextlib.suppress(OSError):
                path.unlink()


def _list_old(folder: Path, prefix: str, before: float) -> list[Path]:
    """Return the user's own entries of the folder with that prefix, last changed before ``before``, without links.

    ``before`` is in seconds since the epoch.
    """
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(prefix):
                continue
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                mine = status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
                if mine and status.st_mtime < before:
                    found.append(Path(entry.path))
    return found


def _is_in_use(folder: Path) -> bool:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
