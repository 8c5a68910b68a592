"""Calls of a session that run on threads of their own, in order, few of them waiting."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, local
from typing import TYPE_CHECKING, Any

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError

if TYPE_CHECKING:
    from concurrent import futures
    from concurrent.futures import Future, ThreadPoolExecutor
else:
    futures = import_lazily("concurrent.futures")

Finish = Callable[[], Any]
"""Waits for a call that was started, and returns its result."""
Start = Callable[[], Finish]
"""Starts a call."""


@dataclass(frozen=True)
class _Call:
    future: Future[Any]
    start: Start
    newest: bool


class CallQueue:
    """Threads that make calls in the order of ``submit``. They start with the first one.

    At most ``at_once`` calls are started and not finished, and one more waits. If this is more than one, a second
    thread finishes the calls, also in order. Futures are cancelled while the lock is free, because their callbacks may
    submit and close.
    """

    def __init__(self, at_once: int = 1) -> None:
        self.most_calls = at_once + 1
        self._at_once = at_once
        self._started = 0  # calls that are not finished
        self._changed = Condition()
        self._starter: ThreadPoolExecutor | None = None
        self._finisher: ThreadPoolExecutor | None = None  # none if the starter also finishes
        self._calls: list[Future[Any]] = []
        self._mark = object()  # of the threads
        self._closed = False

    def submit(self, start: Start, *, newest: bool) -> Future[Any]:
        """Return the future of the call that ``start`` begins.

        While ``most_calls`` calls are not done, this waits; if ``newest``, it cancels those that wait instead. A newest
        call starts only when all others are finished: until then a newer one can replace it. Raises TvmbuildError if
        this is closed, or if a callback in the threads would have to wait for them.
        """
        with self._changed:
            calls = self._list_calls()
            while not newest and len(calls) >= self.most_calls:
                if getattr(_here, "mark", None) is self._mark:
                    raise TvmbuildError("a callback cannot wait for room among the calls", "use `newest=True`")
                self._changed.wait()
                calls = self._list_calls()
            if self._starter is None:
                self._starter = self._make_thread()
                self._finisher = self._make_thread() if self._at_once > 1 else None
            added = _Call(futures.Future(), start, newest)
            self._starter.submit(self._start, added, self._finisher)
            self._calls = [*calls, added.future]
        added.future.add_done_callback(self._notify)
        if newest:
            _cancel(calls)
        return added.future

    def close(self) -> None:
        """Cancel the calls that wait, and take no more. The calls that were started go on."""
        with self._changed:
            self._closed = True
            starter, self._starter = self._starter, None
            finisher, self._finisher = self._finisher, None
            calls, self._calls = self._calls, []
            self._changed.notify_all()
        _cancel(calls)
        if starter is not None:
            if finisher is not None:
                starter.submit(finisher.shutdown, wait=False)  # after the last call
            starter.shutdown(wait=False)

    def _make_thread(self) -> ThreadPoolExecutor:
        return futures.ThreadPoolExecutor(1, "tvmbuild-calls", _set_mark, (self._mark,))

    def _start(self, call: _Call, finisher: ThreadPoolExecutor | None) -> None:
        """Start a call as soon as it is its turn, unless it is cancelled before."""
        with self._changed:
            while not call.future.cancelled() and self._started >= (1 if call.newest else self._at_once):
                self._changed.wait()
        if not call.future.set_running_or_notify_cancel():
            return
        with self._changed:
            self._started += 1
        try:
            finish = call.start()
        except BaseException as error:  # noqa: BLE001 - the future has it
            finish = functools.partial(_fail, error)
        try:
            if finisher is not None:
                finisher.submit(self._finish, call.future, finish)
                return
        except RuntimeError:  # Python is ending, and takes no more work
            pass
        self._finish(call.future, finish)

    def _finish(self, future: Future[Any], finish: Finish) -> None:
        try:
            result, failure = finish(), None
        except BaseException as error:  # noqa: BLE001 - the future has it
            result, failure = None, error
        with self._changed:
            self._started -= 1
            self._changed.notify_all()
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)

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


def _fail(error: BaseException) -> None:
    raise error
