"""Calls of a session that run on threads of their own, in order, few of them waiting."""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Condition, RLock, Thread, local
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError

if TYPE_CHECKING:
    from concurrent import futures
    from concurrent.futures import Future
else:
    futures = import_lazily("concurrent.futures")

Finish = Callable[[], Any]
"""Waits for a call that was started, and returns its result."""
Start = Callable[[], Finish]
"""Starts a call."""


@dataclass(frozen=True, eq=False)
class _Call:
    future: Future[Any]
    start: Start
    newest: bool


class CallQueue:
    """Threads that make calls in the order of ``submit``. They start with the first one.

    At most ``at_once`` calls are started and not finished, and one more waits. If this is more than one, a second
    thread finishes the calls, also in order.
    """

    def __init__(self, at_once: int = 1) -> None:
        self.most_calls = at_once + 1
        self._work = _Work(at_once)

    def __del__(self) -> None:
        """Let the threads end. No call waits, because it would keep the session."""
        self._work.let_end()

    def submit(self, start: Start, *, newest: bool) -> Future[Any]:
        """Return the future of the call that ``start`` begins.

        While ``most_calls`` calls are not done, this waits; if ``newest``, it cancels those that wait instead. A newest
        call starts only when all others are finished: until then a newer one can replace it. Raises TvmbuildError if
        this is closed, or if a callback in the threads would have to wait for them.
        """
        call = _Call(futures.Future(), start, newest)
        replaced = self._work.add(call, self.most_calls)
        call.future.add_done_callback(self._work.forget)  # not the call, which would keep its inputs
        _cancel(replaced)
        return call.future

    def close(self) -> None:
        """Cancel the calls that wait, and take no more. The calls that were started go on."""
        _cancel(self._work.end())


class _Work:
    """The calls, which queue and threads share.

    Futures are cancelled without the lock, because their callbacks may submit and close.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = RLock()  # a garbage collection in one of the threads may call let_end
        self._has_room, self._has_turn = Condition(self._lock), Condition(self._lock)
        self._waiting: deque[_Call] = deque()
        self._running: SimpleQueue[tuple[Future[Any], Finish] | None] = SimpleQueue()
        self._started = 0  # calls that are not finished
        self._threads: list[Thread] = []
        self._closed = False

    def add(self, call: _Call, most_calls: int) -> list[_Call]:
        """Add a call, and return the ones that it replaces."""
        with self._lock:
            self._check_open()
            while not call.newest and len(self._waiting) + self._started >= most_calls:
                if getattr(_here, "work", None) is self:
                    raise TvmbuildError("a callback cannot wait for room among the calls", "use `newest=True`")
                self._has_room.wait()
                self._check_open()
            replaced = list(self._waiting) if call.newest else []
            if replaced:
                self._waiting.clear()
            self._waiting.append(call)
            self._has_turn.notify()
            if not self._threads:
                self._start_threads()
        return replaced

    def forget(self, future: Future[Any]) -> None:
        """Forget a call that was cancelled while it waited."""
        if not future.cancelled():
            return
        with self._lock:
            call = next((each for each in self._waiting if each.future is future), None)
            if call is None:
                return
            self._waiting.remove(call)
            self._has_room.notify()
        future.set_running_or_notify_cancel()  # who waits for several futures learns of it by this

    def end(self) -> list[_Call]:
        """Take no more calls, and remove and return those that still wait."""
        with self._lock:
            self.let_end()
            waiting = list(self._waiting)
            self._waiting.clear()
            self._has_room.notify_all()
        return waiting

    def let_end(self) -> None:
        """Take no more calls. The threads end after those that wait."""
        with self._lock:
            self._closed = True
            self._has_turn.notify()

    def finish_all(self) -> None:
        """Wait until all calls are done, and take no more."""
        self.let_end()
        for thread in self._threads:
            thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise TvmbuildError("the session is closed, and takes no more calls")

    def _start_threads(self) -> None:
        targets = [self._start_calls] + ([self._finish_calls] if self._at_once > 1 else [])
        self._threads = [Thread(target=each, name="tvmbuild-calls", daemon=True) for each in targets]
        for thread in self._threads:
            thread.start()
        _all.add(self)

    def _start_calls(self) -> None:
        _here.work = self
        while True:
            with self._lock:
                while not self._is_turn() and not (self._closed and not self._waiting):
                    self._has_turn.wait()
                if not self._waiting:
                    break
                call = self._waiting.popleft()
                if not call.future.set_running_or_notify_cancel():
                    del call
                    continue
                self._started += 1
            try:
                finish = call.start()
            except BaseException as error:  # noqa: BLE001 - the future has it
                finish = partial(_fail, error)
            if self._at_once > 1:
                self._running.put((call.future, finish))
            else:
                self._finish(call.future, finish)
            del call, finish  # they may hold large arrays
        self._running.put(None)

    def _finish_calls(self) -> None:
        _here.work = self
        while (call := self._running.get()) is not None:
            self._finish(*call)
            del call

    def _finish(self, future: Future[Any], finish: Finish) -> None:
        try:
            result, failure = finish(), None
        except BaseException as error:  # noqa: BLE001 - the future has it
            result, failure = None, error
        with self._lock:
            self._started -= 1
            self._has_room.notify()
            self._has_turn.notify()
        if failure is None:
            future.set_result(result)
        else:
            future.set_exception(failure)

    def _is_turn(self) -> bool:
        return bool(self._waiting) and self._started < (1 if self._waiting[0].newest else self._at_once)


_here = local()
_all: WeakSet[_Work] = WeakSet()


@atexit.register
def _finish_all() -> None:
    """Finish the calls before Python ends its threads."""
    for work in list(_all):
        work.finish_all()


def _cancel(calls: list[_Call]) -> None:
    for call in calls:
        call.future.cancel()
        call.future.set_running_or_notify_cancel()


def _fail(error: BaseException) -> None:
    raise error
