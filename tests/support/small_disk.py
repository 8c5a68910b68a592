"""A folder on a separate disk, which may be small or not hold programs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mount_disk(folder: Path, options: str) -> Iterator[Path]:
    """Make the folder and mount a tmpfs there with these options (`size=256k`, `noexec`) during the context."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
