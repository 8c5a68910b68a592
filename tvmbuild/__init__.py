"""tvmbuild: `make` for neural networks on Apache TVM."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tvmbuild.base.lazy_modules import paused_collector
from tvmbuild.base.tvm_ffi_import import import_if_shadowed, import_tvm_ffi

if TYPE_CHECKING:
    from tvmbuild.package.runtime.session import Session

__version__ = "0.1.0"

_SESSION = "tvmbuild.package.runtime.session"

import_if_shadowed()


def load(
    path: Path | str | Iterable[Path | str],
    threads: int | None = None,
    *,
    cores: Collection[int] | Literal["fastest"] | None = None,
    priority: int = 0,
) -> Session:
    """Load a package and return a session that runs it: of several packages, the first that this machine can run.

    A file that `tvmbuild pack` made stands for its packages, in its order.

    `session.passed_over` says why those before it were not taken, and `session.target` which one was.
    ``threads`` is the number of threads of one call. The default is TVM_NUM_THREADS in the environment, or else the
    number of cores that the package was tuned for, at most the available cores: those of the process's affinity and of
    its control groups' quota. All sessions of the process share their threads. Idle threads help the calls of the
    highest ``priority`` first. ``cores`` are the numbers of the cores on which calls run, or `"fastest"` for as many of
    the fastest as there are threads. Raises TvmbuildError if the package is damaged or this machine cannot run it.
    NumPy, Pillow and TVM's runtime (not its compiler) are imported only at the first call.
    """
    with paused_collector():
        archive = importlib.import_module("tvmbuild.package.archive")
        single = Path(path) if isinstance(path, (str, Path)) and not archive.is_pack(Path(path)) else None
        early = archive.EarlyMap(single) if single and _SESSION not in sys.modules else None
        import_tvm_ffi()
        make: type[Session] = importlib.import_module(_SESSION).Session
    if single:
        return make(early or single, threads, cores=cores, priority=priority)
    choose = importlib.import_module("tvmbuild.package.runtime.choice").load_first
    paths = [path] if isinstance(path, (str, Path)) else path
    session: Session = choose(paths, lambda each: make(each, threads, cores=cores, priority=priority))
    return session
