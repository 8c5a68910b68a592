"""Folders from which libraries can be loaded."""

from __future__ import annotations

import os
from pathlib import Path

from tvmbuild.errors import TvmbuildError


def check_loadable(folder: Path, variable: str = "TMPDIR") -> None:
    """Raise TvmbuildError if the folder is on a disk that is mounted noexec, so that it cannot hold libraries.

    ``variable`` is the environment variable that names another folder. The loader's own message would be "failed to map
    segment from shared object".
    """
    try:
        flags = os.statvfs(folder).f_flag
    except OSError:
        return
    if flags & os.ST_NOEXEC:
        disk = next((each for each in (folder, *folder.parents) if each.is_mount()), folder)
        raise TvmbuildError(
            f"{disk} is mounted noexec: no library can be loaded from there (failed to map segment)",
            f"Set {variable} to a folder of a disk that allows it.",
        )
