"""An ssh connection to a board without Python, with a temporary folder there for a package and its program.

The shell on the board owns the folder. It removes the folder when the connection ends, for whatever reason.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from tvmbuild.base.processes import die_with_parent
from tvmbuild.devices.conversation import DeviceLostError
from tvmbuild.devices.ssh.program import PROGRAM
from tvmbuild.devices.ssh.trouble import explain_connection, explain_program
from tvmbuild.errors import TvmbuildError

LOST = 255
"""The exit code of ssh if the connection itself failed or broke."""
END_S = 5.0
_OPTIONS = {"BatchMode": "yes", "ConnectTimeout": 10, "ServerAliveInterval": 10, "ServerAliveCountMax": 3}
"""The options of ssh. It must not ask for a password, and must notice within half a minute that a board is off."""
_MARK = "tvmbuild-board"
"""The word that marks the first line from our script, after the output of the shell's start-up files."""
_PACKAGE = "package.tar"
_SERVE = "; ".join(
    (
        "export LC_ALL=C",
        'folder=$(mktemp -d "${TMPDIR:-/tmp}/tvmbuild-XXXXXX") || exit 1',
        "trap 'rm -rf \"$folder\"' EXIT",
        "trap 'exit 1' HUP INT TERM",
        f'echo "{_MARK} $(uname -m) $folder"',
        "read -r threads || exit 0",  # waits until all files are there
        f'cd "$folder" && TMPDIR=$folder LD_LIBRARY_PATH=$folder ./{PROGRAM} {_PACKAGE} "$threads"',
    )
)
"""The script for the board's sh: it makes the folder and starts the program. csh requires that it is one line."""


class SshSession:
    """An open connection to a board, where :meth:`start` starts a package.

    Its methods raise DeviceLostError if the connection breaks, and TvmbuildError if the program on the board fails.
    """

    def __init__(self, host: str, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._host = host
        self._process = process
        self._errors = errors
        self._is_open = False
        words: list[str] = []
        while words[:1] != [_MARK]:
            words = self._read_line().decode(errors="replace").split(maxsplit=2)
        self._is_open = True
        self.machine, self._folder = words[1], words[2].rstrip("\n")
        """``machine`` is the output of `uname -m` on the board, and ``_folder`` the path of the temporary folder."""

    def start(self, package: Path, threads: int, files: Sequence[Path]) -> int:
        """Copy the package and the files to the board, and start the program, which is the first of ``files``.

        Returns the number of threads that the program uses.
        """
        program, *others = files
        self._upload({PROGRAM: program, _PACKAGE: package, **{path.name: path for path in others}})
        self._write(f"{threads}\n".encode())
        return int(self._answer(lambda: None)["threads"])

    def ask(self, command: Mapping[str, object], beat: Callable[[], None], payload: bytes = b"") -> dict[str, Any]:
        """Send a command and the bytes ``payload`` after it, and return the answer.

        ``beat`` is called for each sign of life of the program.
        """
        self._write(json.dumps(command).encode() + b"\n" + payload)
        return self._answer(beat)

    def receive(self, size: int) -> bytes:
        """Return the ``size`` bytes that follow an answer."""
        if self._process.stdout is None:
            raise TypeError("ssh has no stdout")
        content = self._process.stdout.read(size)
        if len(content) < size:
            raise self._explain_end()
        return content

    def _answer(self, beat: Callable[[], None]) -> dict[str, Any]:
        while "alive" in (answer := json.loads(self._read_line())):
            beat()
        if "error" in answer:
            raise TvmbuildError(f"on the board {self._host}: {answer['error']}")
        return dict(answer)

    def _upload(self, files: Mapping[str, Path]) -> None:
        """Copy the files to the board's folder under the names that are the keys, over a separate connection."""
        command = _command(self._host, f"cd {shlex.quote(self._folder)} && LC_ALL=C tar -xf -")
        with TemporaryFile() as errors:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors)
            # If tar ends too early, its exit code gives the reason.
            with contextlib.suppress(BrokenPipeError), process, tarfile.open(fileobj=process.stdin, mode="w|") as tar:
                for name, path in files.items():
                    tar.add(path, name, filter=_make_executable)
            if process.returncode == LOST:
                raise _explain_loss(self._host, _read_text(errors))
            if process.returncode != 0:
                raise explain_program(self._host, process.returncode, _read_text(errors), "copying the package there")

    def _write(self, data: bytes) -> None:
        if self._process.stdin is None:
            raise TypeError("ssh has no stdin")
        with contextlib.suppress(BrokenPipeError):  # the next read reports why the program ended
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _read_line(self) -> bytes:
        if self._process.stdout is None:
            raise TypeError("ssh has no stdout")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._explain_end()
        return line

    def _explain_end(self) -> TvmbuildError:
        code, said = self._process.wait(), _read_text(self._errors)
        if code != LOST:
            return explain_program(self._host, code, said, "the program that runs packages")
        return _explain_loss(self._host, said) if self._is_open else explain_connection(self._host, said)


@contextmanager
def open_session(host: str) -> Iterator[SshSession]:
    """Connect to the board and yield the session. When the context ends, nothing is left on the board.

    This must be called before the process has threads. Raises TvmbuildError if the connection fails.
    """
    with TemporaryFile() as errors:
        process = subprocess.Popen(
            _command(host, _SERVE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - this process has no threads yet
        )
        try:
            yield SshSession(host, process, errors)
        finally:
            with process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=END_S)  # the end of its stdin ends the program on the board
                process.kill()


def _command(host: str, script: str) -> list[str]:
    """Return the local command that runs a script by sh on the board, whatever the user's login shell is there."""
    program = shutil.which("ssh")
    if program is None:
        raise TvmbuildError("there is no ssh on this machine", "install OpenSSH's client")
    options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
    return [program, "-T", *options, "--", host, f"sh -c {shlex.quote(script)}"]


def _make_executable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode, member.uid, member.gid, member.uname, member.gname = 0o700, 0, 0, "", ""
    return member


def _explain_loss(host: str, said: str) -> DeviceLostError:
    return DeviceLostError(f"the connection with the board {host} was lost: {said or 'ssh does not say why'}")


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()
