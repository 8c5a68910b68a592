"""The channel on which a local child process answers its parent; it stands for a process on a board.

`conversation.py` is the parent's end.
"""

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
    """A writer of answers to the original stdout, one JSON object per line. Any thread may use it.

    From its construction, everything else that the process writes to stdout goes to stderr.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # all output of libraries goes to stderr

    def put(self, value: Mapping[str, object]) -> None:
        """Write one answer as a line of JSON."""
        with self._lock:
            self._file.write(json.dumps(value) + "\n")
            self._file.flush()

    def alive(self) -> None:
        """Send the parent a sign of life."""
        self.put({"alive": True})

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Send the parent a sign of life every BEAT_S seconds until the context ends."""
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
        """Report the error to the parent and end the process at once, even if another thread hangs in a call."""
        self.put({"error": error.message, "hint": error.hint, "lost": isinstance(error, DeviceLostError)})
        os._exit(1)
