"""The parent's end of a conversation with a child process: one JSON object per line for commands and for answers."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO

from tvmbuild.base.processes import neutral_folder
from tvmbuild.errors import TvmbuildError

CALL_LIMIT_S = 120.0
"""The time limit of one call, in seconds. A slower process counts as hung, because it blocks the device for others."""


class DeviceLostError(TvmbuildError):
    """The error of a device that became unreachable during a command. The caller may repeat the command."""


class Conversation:
    """A running child process that answers commands.

    ``errors`` is the file that receives its stderr. ``what`` is a phrase for messages that names what it runs.
    """

    def __init__(self, process: subprocess.Popen[str], errors: IO[str], what: str) -> None:
        self._process = process
        self._errors = errors
        self._what = what
        self._received = b""
        self.pid = process.pid

    def read(self, limit_s: float) -> dict[str, object]:
        """Return the next answer. Each sign of life of the process restarts the time limit ``limit_s``.

        Raises TvmbuildError if the process answers with an error, dies, or exceeds the limit; DeviceLostError if its
        answer is that the device was lost.
        """
        answer: dict[str, object] = {"alive": True}
        while "alive" in answer:
            answer = json.loads(self._read_line(limit_s))
        if "error" in answer:
            hint = None if answer.get("hint") is None else str(answer["hint"])
            raise (DeviceLostError if answer.get("lost") else TvmbuildError)(str(answer["error"]), hint)
        return answer

    def ask(self, command: Mapping[str, object], calls: int = 1) -> dict[str, object]:
        """Send a command and return the answer. Raises like :meth:`read`.

        The process may need ``calls`` calls of the model between two signs of life: the time limit is multiplied by
        this number.
        """
        if self._process.stdin is None:
            raise TypeError("a worker has no stdin")
        with contextlib.suppress(BrokenPipeError):  # the next read reports why it died
            self._process.stdin.write(json.dumps({**command, "beat_s": CALL_LIMIT_S / 10}) + "\n")
            self._process.stdin.flush()
        return self.read(CALL_LIMIT_S * calls)

    def signal(self, number: int) -> None:
        """Send the signal ``number`` to the process, unless it has ended."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Kill the process, even while it works, and wait for its end."""
        self._process.kill()
        with contextlib.suppress(OSError):  # stdin's buffer, when the process is gone
            if self._process.stdin is not None:
                self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()

    def _read_line(self, limit_s: float) -> bytes:
        if self._process.stdout is None:
            raise TypeError("a worker has no stdout")
        end = time.monotonic() + limit_s
        # readline() would wait for the rest of a line.
        while b"\n" not in self._received:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self._process.kill()
                raise TvmbuildError(
                    f"the process that ran {self._what} gave no answer for {limit_s:g} s and was killed",
                    "it hangs, or one call takes that long: tune the cell, or build it only, with `device: none`",
                )
            block = os.read(self._process.stdout.fileno(), 1 << 16)
            if not block:
                raise self._explain_death()
            self._received += block
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _explain_death(self) -> TvmbuildError:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.rstrip() for line in self._errors.readlines() if line.strip()]
        sys.stderr.write("\n".join(lines[-60:]) + "\n")  # the whole story for the step's log
        how = f"died of signal {-code} ({_signal_name(-code)})" if code < 0 else f"failed with exit code {code}"
        last = f": {lines[-1]}" if lines and code >= 0 else ""
        hints = {
            -signal.SIGILL: "the package uses instructions that this CPU does not have: build for another mcpu",
            -signal.SIGKILL: "the machine may have run out of memory",
        }
        return TvmbuildError(f"the process that ran {self._what} {how}{last}", hints.get(code))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


@contextmanager
def converse(command: Sequence[str], variables: Mapping[str, str], what: str) -> Iterator[Conversation]:
    """Start a program with additional environment ``variables`` and yield the conversation with it.

    The program is killed when the context ends.
    """
    environment, pipe = {**os.environ, **variables}, subprocess.PIPE
    with neutral_folder() as folder, TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True
        )
        conversation = Conversation(process, errors, what)
        try:
            yield conversation
        finally:
            conversation.close()
