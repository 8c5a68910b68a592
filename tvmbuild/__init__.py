"""tvmbuild: `make` for neural networks on Apache TVM."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from tvmbuild.base.tvm_ffi_import import import_tvm_ffi

if TYPE_CHECKING:
    from tvmbuild.package.runtime.session import Session

__version__ = "0.1.0"

import_tvm_ffi()


def load(path: Path | str, threads: int | None = None) -> Session:
    """Load a package to run it; what that needs is imported now: NumPy, Pillow and TVM's runtime, not its compiler."""
    session: Session = importlib.import_module("tvmbuild.package.runtime.session").Session(path, threads)
    return session
