"""A session's share of the process's threads, and the thread pool in packages (pool.c) that owns them."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

from tvmbuild.base.cores import pick_fastest, usable_cores
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.wording import count
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo, default_threads

SOURCE = Path(__file__).with_name("pool.c")
HOST_NAME = "libtvmbuild-pool.so.1"
"""The SONAME of every library with the pool: the first in a process has the threads of all. The 1 is its interface."""
_VARIABLE = "TVM_NUM_THREADS"
_SLOT = "__TVMBackendParallelLaunch"
"""The pointer in a library through which its code calls the function that runs a parallel loop.

TVM's runtime sets the pointer when it loads the library.
"""
_MOST_DIGITS = 9
_MOST_PRIORITY = 2**31 - 1  # of C
_MASK_WORDS = 16
_MOST_CORES = 64 * _MASK_WORDS


@dataclass(frozen=True)
class Share:
    """A session's share of the process's threads."""

    threads: int
    """The number of threads of one call, the caller's included."""
    priority: int = 0
    """Idle threads help the calls of the highest priority first."""
    cores: tuple[int, ...] = ()
    """The cores on which the calls run. Empty: wherever the process may run."""


@dataclass(frozen=True)
class Wish:
    """The arguments of `tvmbuild.load` about threads, as a user wrote them."""

    threads: int | None = None
    cores: Collection[int] | Literal["fastest"] | None = None
    priority: int = 0


def choose_share(info: PackageInfo, wish: Wish) -> Share:
    """Return the share for ``wish``. Its threads are TVM_NUM_THREADS or the package's default if it has no number.

    Raises TvmbuildError if more threads are requested than the process may use cores, because two threads on one core
    take twice the time of one thread, if the process may not use a core, or if an argument is of another type.
    """
    priority = _read_whole("priority", wish.priority)
    if not -_MOST_PRIORITY <= priority <= _MOST_PRIORITY:
        remedy = f"take one from -{_MOST_PRIORITY} to {_MOST_PRIORITY}"
        raise TvmbuildError(f"the priority {priority} was asked for", remedy)
    wanted = None if wish.threads is None else _read_whole("threads", wish.threads)
    if wish.cores is None or (isinstance(wish.cores, str) and wish.cores == "fastest"):
        threads = _choose_threads(info, wanted, available_cores(), "this process may use")
        cores = tuple(pick_fastest(usable_cores(), threads)) if wish.cores == "fastest" else ()
        return Share(threads, priority, cores)
    if isinstance(wish.cores, (str, bytes)) or not isinstance(wish.cores, Iterable):
        raise TvmbuildError(f"`cores` is {wish.cores!r}", 'write "fastest", or a list of numbers of cores')
    asked = sorted({_read_whole("cores", each) for each in wish.cores})
    usable = usable_cores()
    wrong = [core for core in asked if core not in usable]
    if wrong or not asked:
        told = f"the cores {_name_all(wrong)} were asked for" if wrong else "no core was named"
        known = _name_all(sorted(usable))
        raise TvmbuildError(f"{told}, and this process may use the cores {known}", "name some of them")
    threads = _choose_threads(info, wanted, min(len(asked), available_cores()), "the session may use")
    return Share(threads, priority, tuple(asked))


def _read_whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TvmbuildError(f"`{name}` has the value {value!r}", "write a whole number")
    return int(value)


def _choose_threads(info: PackageInfo, threads: int | None, cores: int, who: str) -> int:
    by_variable = threads is None and _VARIABLE in os.environ
    if by_variable:
        threads = _read_variable()
    if threads is None:
        return default_threads(info, cores)
    if not 1 <= threads <= cores:
        told = f"{_VARIABLE} asks for {threads} threads" if by_variable else f"{threads} threads were asked for"
        remedy = f"ask for 1 to {cores}" if cores > 1 else "ask for 1, or give the process more cores"
        raise TvmbuildError(f"{told}, and {who} {count(cores, 'core')}", remedy)
    return threads


def _name_all(cores: Collection[int]) -> str:
    """Return the numbers of the cores, separated by commas."""
    return ", ".join(map(str, cores))


def _read_variable() -> int:
    """Return the value of TVM_NUM_THREADS.

    Asking TVM's runtime would start its pool, whose threads may keep a process on one busy core from ending.
    """
    text = os.environ[_VARIABLE]
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
        told = f"{text[:_MOST_DIGITS]}…" if len(text) > _MOST_DIGITS else text
        raise TvmbuildError(f"{_VARIABLE} is {told!r}, not a number of threads", "set a number, or unset it")
    return int(text)


def run_on_cores(function: Callable[..., Any], share: Share) -> Callable[..., Any]:
    """Return a function that calls ``function`` while the calling thread is on the share's cores."""
    if not share.cores:
        return function

    def run(*arguments: Any) -> Any:
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, share.cores)
        try:
            return function(*arguments)
        finally:
            os.sched_setaffinity(0, before)

    return run


def use_own_pool(library: Path, share: Share) -> bool:
    """Let a library, which TVM's runtime has loaded, run its parallel loops on the threads that packages share.

    The threads belong to the first library of the process that has the pool, and end with the last that uses them. A
    library of an older tvmbuild has threads of its own. Returns False, and the loops run on TVM's pool, if the library
    was built without a pool, if no thread can be started, or if the environment has TVMBUILD_THREAD_POOL=tvm.
    ``library`` is the path from which the library was loaded. The file must still exist. Raises TvmbuildError if the
    share names cores, and the threads cannot be bound to them.
    """
    has_pool = False
    if os.environ.get("TVMBUILD_THREAD_POOL") != "tvm":
        loaded = ctypes.CDLL(str(library))  # the same file is the same library
        try:
            has_pool = _use_pool(loaded, share)
        finally:
            _close(loaded)  # the runtime still holds the library
    if share.cores and not has_pool:
        raise TvmbuildError("this package's threads cannot be bound to cores", "build it again, or leave out `cores`")
    return has_pool


def _use_pool(library: ctypes.CDLL, share: Share) -> bool:
    try:
        launch = library.tvmbuild_pool_launch
        join = getattr(library, "tvmbuild_pool_join", None)
    except AttributeError:
        return False
    try:
        slot = ctypes.c_void_p.in_dll(library, _SLOT)
    except ValueError:
        return True  # it has no parallel loop
    if join is None:
        started = not share.cores and library.tvmbuild_pool_start(share.threads) == 0
    else:
        started = _join(library, share)
    if started:
        slot.value = _address(launch)
    return started


def _join(library: ctypes.CDLL, share: Share) -> bool:
    host = _find_host() or library
    join, count_threads = host.tvmbuild_pool_join, host.tvmbuild_pool_threads
    join.restype = ctypes.c_void_p
    cores = _check_cores(share.cores) if share.cores else usable_cores()
    limit = len(cores) if share.cores else max(available_cores(), share.threads)
    team = ctypes.c_void_p(join(_mask(cores), bool(share.cores), limit, share.threads))
    there = count_threads(team) if team else 0
    if 0 < there < share.threads:
        warnings.warn(f"only {there} of {share.threads} threads could be started", RuntimeWarning, stacklevel=2)
    run = _address(host.tvmbuild_pool_run)
    is_guest = run != _address(library.tvmbuild_pool_run)
    if team:
        # The host stays while its guest does: the guest closes it when it is unloaded itself.
        close = ctypes.c_void_p(_address(ctypes.CDLL(None).dlclose) if is_guest else None)
        handle = ctypes.c_void_p(host._handle if is_guest else None)  # noqa: SLF001 - ctypes has no public way
        library.tvmbuild_pool_use(team, share.threads, share.priority, ctypes.c_void_p(run), close, handle)
    if host is not library and not (team and is_guest):
        _close(host)
    return bool(team)


def _find_host() -> ctypes.CDLL | None:
    """Open the first library of this process that has the pool. None with musl, which does not know SONAMEs."""
    try:
        return ctypes.CDLL(HOST_NAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def _check_cores(cores: tuple[int, ...]) -> frozenset[int]:
    """Return the cores if a thread of this process may be bound to them; else raise TvmbuildError."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
        os.sched_setaffinity(0, before)
    except OSError as error:
        raise TvmbuildError(
            f"threads cannot be bound to the cores {_name_all(cores)}: {error.strerror}",
            "allow sched_setaffinity (a container's seccomp profile may forbid it), or leave out `cores`",
        ) from error
    return frozenset(cores)


def _mask(cores: Collection[int]) -> Any:
    words = (ctypes.c_uint64 * _MASK_WORDS)()
    for core in cores:
        if core < _MOST_CORES:
            words[core // 64] |= 1 << core % 64
    return words


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _close(library: ctypes.CDLL) -> None:
    _ctypes.dlclose(library._handle)  # noqa: SLF001 - ctypes has no public way
