"""Checking and loading of a package's code, mod.so, and of its thread pool."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tvm_ffi

from tvmbuild.base.loadable import check_loadable
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.runtime.elf_header import find_damage
from tvmbuild.package.runtime.thread_pool import Share, use_own_pool


def load_code(content: bytes, share: Share) -> tuple[Any, bool]:
    """Load the library in ``content``. Returns it, and whether its loops run on the threads that packages share.

    Raises TvmbuildError if the library is damaged or cannot be loaded.
    """
    with _make_folder() as folder:
        check_loadable(Path(folder).parent)
        library = Path(folder, "mod.so")
        loaded = _load(library, content)  # the library is mapped, so the file may go
        return loaded, use_own_pool(library, share)


def _make_folder() -> TemporaryDirectory[str]:
    try:
        return TemporaryDirectory(prefix="tvmbuild-session-")
    except OSError as error:
        raise TvmbuildError(
            f"the code needs a temporary folder, and none can be made: {error.strerror or error}",
            "Set TMPDIR to a folder that can be written.",
        ) from error


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise TvmbuildError(
            f"{path} cannot be written: {error.strerror or error}",
            f"Loading needs {len(content) / 1e6:.1f} MB there. Make room, or set TMPDIR to a folder of another disk.",
        ) from error


def _load(path: Path, content: bytes) -> Any:
    reason = find_damage(content)
    if reason is None:
        _write(path, content)
        try:
            # tvm.runtime.load_module would keep the library, and its threads, until the process ends.
            library = tvm_ffi.load_module(str(path), keep_module_alive=False)
            library["vm_load_executable"]
        except (RuntimeError, AttributeError, OSError) as error:
            reason = str(error).splitlines()[0].replace(str(path), path.name)
        else:
            return library
    raise TvmbuildError(f"{path.name} cannot be loaded: {reason}", "build it again")
