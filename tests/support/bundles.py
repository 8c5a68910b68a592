"""Bundles for machines that have all packages already, and a model of such a machine."""

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
    """Return the value of --have for a machine where all packages except tvmbuild are installed."""
    return ",".join(line.split("==")[0] for line in list_needed(frozenset())) or "numpy"


def unpack(bundle: Path, folder: Path) -> None:
    with tarfile.open(bundle) as archive:
        archive.extractall(folder, **TAR_FILTER)  # noqa: S202 - our own


def make_bare_python(folder: Path) -> Path:
    """Return a Python with this one's packages, but without tvmbuild and a C++ compiler."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    absent = re.compile(r"(__editable__|tvmbuild|ziglang|pip\b|__pycache__)|.*\.pth$")
    for path in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}:
        for each in path.iterdir():
            if not absent.match(each.name) and not (site / each.name).exists():
                (site / each.name).symlink_to(each)
    return folder / "bin" / "python"
