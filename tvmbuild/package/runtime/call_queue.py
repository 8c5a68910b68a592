"""Calls of a session that run on a thread of their own, in order, few of them waiting."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from tvmbuild.base.lazy_modules import import_lazily

if TYPE_CHECKING:
    from concurrent import futures
    from concurrent.futures import Future, ThreadPoolExecutor
else:
    futures = import_lazily("concurrent.futures")

MOST_CALLS = 2
"""The number of calls that are under way or wait: while one runs, the next is ready."""


class CallQueue:
    """A thread that makes calls in the order of ``submit``. It starts with the first one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._calls: list[Future[Any]] = []

    def submit(self, function: Callable[..., Any], *arguments: Any, newest: bool) -> Future[Any]:
        """Return the future of a call.

        While MOST_CALLS calls are not done, this waits; if ``newest``, it cancels those that wait instead, and only
        the call that runs goes on.
        """
        while True:
            with self._lock:
                self._calls = [call for call in self._calls if not call.done()]
                if newest:
                    self._calls = [call for call in self._calls if not call.cancel()]
                if newest or len(self._calls) < MOST_CALLS:
                    self._executor = self._executor or futures.ThreadPoolExecutor(1, "tvmbuild-calls")
                    self._calls.append(self._executor.submit(function, *arguments))
                    return self._calls[-1]
                waiting = list(self._calls)
            futures.wait(waiting, return_when=futures.FIRST_COMPLETED)

    def close(self) -> None:
        """Cancel the calls that wait. The call that runs goes on."""
        with self._lock:
            executor, self._executor = self._executor, None
            for call in self._calls:
                call.cancel()
        if executor is not None:
            # Without cancel_futures, which would not wake those who wait for the cancelled calls.
            executor.shutdown(wait=False)
