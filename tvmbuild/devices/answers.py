"""The answers of a local child process that stands for a process on a board. The parent's end is `conversation.py`."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.errors import TvmbuildError

BEAT_S = 10.0


class Answers:
    """The real stdout, which takes one JSON object a line. Any thread may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # all output of libraries goes to stderr

    def put(self, value: Mapping[str, object]) -> None:
        """Write one answer."""
        with self._lock:
            self._file.write(json.dumps(value) + "\n")
            self._file.flush()

    def alive(self) -> None:
        """Send the parent a sign of life."""
        self.put({"alive": True})

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Send the parent a sign of life every BEAT_S seconds while the block waits."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT_S):
                self.alive()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def fail(self, error: TvmbuildError) -> None:
        """Report an error to the parent and end the process, even if another call does not return."""
        self.put({"error": error.message, "hint": error.hint, "lost": isinstance(error, DeviceLostError)})
        os._exit(1)
