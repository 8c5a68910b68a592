"""Calls of a session that run on a thread of their own, in order, few of them waiting."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, local
from typing import TYPE_CHECKING, Any

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError

if TYPE_CHECKING:
    from concurrent import futures
    from concurrent.futures import Future, ThreadPoolExecutor
else:
    futures = import_lazily("concurrent.futures")

MOST_CALLS = 2
"""The number of calls that are under way or wait: while one runs, the next is ready."""


class CallQueue:
    """A thread that makes calls in the order of ``submit``. It starts with the first one.

    Futures are cancelled while the lock is free, because their callbacks may submit and close.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._executor: ThreadPoolExecutor | None = None
        self._calls: list[Future[Any]] = []
        self._mark = object()  # of the thread
        self._closed = False

    def submit(self, function: Callable[..., Any], *arguments: Any, newest: bool) -> Future[Any]:
        """Return the future of a call.

        While MOST_CALLS calls are not done, this waits; if ``newest``, it cancels those that wait instead, and only
        the call that runs goes on. Raises TvmbuildError if this is closed, or if a callback in the thread would have
        to wait for the thread itself.
        """
        with self._changed:
            calls = self._list_calls()
            while not newest and len(calls) >= MOST_CALLS:
                if getattr(_here, "mark", None) is self._mark:
                    raise TvmbuildError("a callback cannot wait for room among the calls", "use `newest=True`")
                self._changed.wait()
                calls = self._list_calls()
            if self._executor is None:
                self._executor = futures.ThreadPoolExecutor(1, "tvmbuild-calls", _set_mark, (self._mark,))
            added = self._executor.submit(function, *arguments)
            self._calls = [*calls, added]
        added.add_done_callback(self._notify)
        if newest:
            _cancel(calls)
        return added

    def close(self) -> None:
        """Cancel the calls that wait, and take no more. The call that runs goes on."""
        with self._changed:
            self._closed = True
            executor, self._executor = self._executor, None
            calls, self._calls = self._calls, []
            self._changed.notify_all()
        _cancel(calls)
        if executor is not None:
            executor.shutdown(wait=False)

    def _list_calls(self) -> list[Future[Any]]:
        if self._closed:
            raise TvmbuildError("the session is closed, and takes no more calls")
        return [call for call in self._calls if not call.done()]

    def _notify(self, _done: Future[Any]) -> None:
        with self._changed:
            self._changed.notify_all()


_here = local()


def _set_mark(mark: object) -> None:
    _here.mark = mark


def _cancel(calls: list[Future[Any]]) -> None:
    for call in calls:
        call.cancel()
