"""Locks of devices: one lock file per device, shared by all processes and all clones of the project."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from tvmbuild.base.layout import runtime_dir
from tvmbuild.base.progress import report_progress


@contextmanager
def device_lock(device: str, *, exclusive: bool, quiet: bool = False) -> Iterator[None]:
    """Hold the device's lock until the context ends: exclusively for timing, shared for work that disturbs timing.

    ``device`` is the lock's name, for example `local` for this machine or `cuda` for its card. The kernel releases the
    lock when the process dies, even by kill -9. If the lock is taken, this waits, and reports that unless ``quiet``.
    """
    folder = runtime_dir()
    folder.mkdir(parents=True, exist_ok=True)
    mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    with (folder / f"{device}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if not quiet:
                report_progress(f"waiting for the device {device}")
            fcntl.flock(handle, mode)
        yield
