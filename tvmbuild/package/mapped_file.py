"""A file in memory without a copy: sessions share its pages, and processes share them by the page cache."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from tvmbuild.errors import TvmbuildError

_Identity = tuple[int, int, int, int]
_CHECK_S = 0.001
"""The time between two checks of a file, in seconds. A check takes 0.8 µs, and a call of a small network 10 µs."""


class MappedFile:
    """A file's bytes as they were when it was opened. What is written into them stays in this process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        self._identity = _identify(descriptor)
        self._checked = 0.0
        self.is_mapped = True
        size = os.fstat(descriptor).st_size
        try:
            self.data = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY) if size else b"")
        except OSError:  # this file system cannot map files
            self.is_mapped = False
            self.data = memoryview(bytearray(path.read_bytes()))

    def check(self) -> None:
        """Raise TvmbuildError if the file was written to: then the bytes are no longer those that were checked.

        A file that another one has replaced (`mv`, rsync, tvmbuild's own builds) stays as it was. Calls that follow the
        last check within a millisecond check nothing, because a small network takes as long as the check.
        """
        now = time.monotonic()
        if now - self._checked < _CHECK_S:
            return
        if self.is_mapped and _identify(self._descriptor) != self._identity:
            raise TvmbuildError(
                f"{self._path.name} was overwritten while a session used it",
                "load it again, and replace packages by `mv`: it leaves the old file to its users",
            )
        self._checked = now

    def __del__(self) -> None:
        os.close(self._descriptor)


_mapped: WeakValueDictionary[_Identity, MappedFile] = WeakValueDictionary()
_lock = Lock()


def map_file(path: Path) -> MappedFile:
    """Map a file, or return the mapping that this process has. Raises OSError if it cannot be opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    identity = _identify(descriptor)
    with _lock:
        found = _mapped.get(identity)
        if found is None:
            found = _mapped[identity] = MappedFile(path, descriptor)
        else:
            os.close(descriptor)
    return found


def _identify(descriptor: int) -> _Identity:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
