"""How a child process that stands for one on a board answers; `conversation.py` has the other end."""

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
    """The real stdout, one JSON object a line; any thread may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # whatever a library prints goes to stderr

    def put(self, value: Mapping[str, object]) -> None:
        """Write one."""
        with self._lock:
            self._file.write(json.dumps(value) + "\n")
            self._file.flush()

    def alive(self) -> None:
        """Tell the parent that we are."""
        self.put({"alive": True})

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Tell the parent so every now and then, while something waits."""
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
        """Tell the parent of an error and end the process, even out of a call that does not return."""
        self.put({"error": error.message, "hint": error.hint, "lost": isinstance(error, DeviceLostError)})
        os._exit(1)
