"""Bundles for machines that have all packages already, and what such a machine is."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from small_package import TAR_FILTER

from tvmbuild.cli.bundle.site import list_needed


def everything() -> str:
    """Return what --have says of a machine where all but tvmbuild is installed."""
    return ",".join(line.split("==")[0] for line in list_needed(frozenset())) or "numpy"


def unpack(bundle: Path, folder: Path) -> None:
    with tarfile.open(bundle) as archive:
        archive.extractall(folder, **TAR_FILTER)  # noqa: S202 - our own


def make_bare_python(folder: Path) -> Path:
    """Return a Python that has what this one has, but no tvmbuild and no compiler of C++."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    absent = re.compile(r"(__editable__|tvmbuild|ziglang|pip\b|__pycache__)|.*\.pth$")
    for path in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}:
        for each in path.iterdir():
            if not absent.match(each.name) and not (site / each.name).exists():
                (site / each.name).symlink_to(each)
    return folder / "bin" / "python"
