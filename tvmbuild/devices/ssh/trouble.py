"""Messages about problems with a board behind ssh, each with its remedy. All functions are pure."""

from __future__ import annotations

from tvmbuild.errors import TvmbuildError

MACHINES = ("x86_64", "aarch64")
"""The machines for which TVM has wheels, and therefore a runtime for boards."""
_CONNECTION = (
    (
        "Could not resolve hostname",
        "there is no host of that name",
        "correct `ssh:` in targets.yaml or after --device, or ~/.ssh/config",
    ),
    (
        "Connection refused",
        "nothing answers ssh there",
        "start sshd on the board, or name its port: ssh://host:port",
    ),
    ("Connection timed out", "it does not answer", "is it switched on, and in this network?"),
    ("No route to host", "it does not answer", "is it switched on, and in this network?"),
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "it has another host key than the one that is known",
        "where the board was set up again: `ssh-keygen -R HOST`, then `ssh {host}` once by hand",
    ),
    (
        "Host key verification failed",
        "its host key is not known here",
        "connect once by hand and compare its key: `ssh {host}`",
    ),
    (
        "Permission denied",
        "it lets nobody in without a password",
        "put your key there: `ssh-copy-id {host}`; a key with a passphrase has to be in ssh-agent",
    ),
)
"""Texts in messages of ssh, with the cause and the remedy of each. The first match counts."""
_PROGRAM = (
    ("No space left on device", "make room there: the folder is in /tmp, or where its TMPDIR says"),
    ("error while loading shared libraries: libstdc++", "install libstdc++ there (Debian's libstdc++6)"),
    ("GLIBC_", "its system is older than the program and TVM's libraries are built for: glibc 2.28"),
    (
        "Permission denied",
        "is its /tmp mounted noexec? TMPDIR in the board's /etc/environment names another folder",
    ),
    ("not found", "its system has not the libraries of this machine's name: it is a 32-bit one, or has no glibc"),
)
_CODES = {
    128 + 4: ("died of SIGILL", "the package uses instructions that its CPU does not have: build for another mcpu"),
    128 + 9: ("was killed", "the board may have run out of memory"),
    128 + 11: ("died of SIGSEGV", None),
}


def explain_connection(host: str, said: str) -> TvmbuildError:
    """Return the error for a connection that failed. ``said`` is the stderr of ssh."""
    for words, meaning, remedy in _CONNECTION:
        if words in said:
            return TvmbuildError(f"no connection to the board {host}: {meaning}", remedy.format(host=host))
    return TvmbuildError(
        f"no connection to the board {host}: {_last_line(said)}",
        f"check that `ssh {host} true` works without a question",
    )


def explain_program(host: str, code: int, said: str, what: str) -> TvmbuildError:
    """Return the error for a program that ended on the board with exit code ``code``.

    ``said`` is the program's stderr, and ``what`` names the program in the message.
    """
    known = next(((words, hint) for words, hint in _PROGRAM if words in said), None)
    if known is None:
        how, remedy = _CODES.get(code, (f"failed with exit code {code}: {_last_line(said)}", None))
    else:
        line = next(line.strip() for line in said.splitlines() if known[0] in line)
        how, remedy = f"failed with exit code {code}: {line}", known[1]
    return TvmbuildError(f"on the board {host}: {what} {how}", remedy)


def explain_no_runtime(machine: str) -> str | None:
    """Return why boards with this machine are not supported, with the remedy, or None if they are."""
    if machine in MACHINES:
        return None
    return f"there is no TVM runtime for {machine}, only for {' and '.join(MACHINES)}; say `device: none` to build only"


def explain_machine(host: str, there: str, wanted: str) -> TvmbuildError:
    """Return the error for a board whose machine ``there`` is not ``wanted``, the machine of the package."""
    return TvmbuildError(
        f"the board {host} is {there}, and the package's code is for {wanted}",
        "correct `mtriple:` of the target in targets.yaml, or its `device:`",
    )


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"
