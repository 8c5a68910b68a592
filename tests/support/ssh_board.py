"""This machine as a board without Python: OpenSSH's server on loopback, and an `ssh` that calls it `board`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from other_processes import find_below
from rpc_boards import free_port, kill_tree, wait_until

_SBIN = "/usr/sbin:/sbin"


@dataclass(frozen=True)
class SshBoard:
    """A running server; ``path`` has the `ssh` to use, and ``temporary`` is the board's /tmp."""

    path: str
    temporary: Path
    process: psutil.Process

    def find_connections(self) -> list[psutil.Process]:
        """Return the server's processes for its open connections."""
        return find_below(self.process, lambda each: each.name().startswith("sshd"))

    def find_programs(self) -> list[psutil.Process]:
        """Return the processes that run packages for the board's connections."""
        return find_below(self.process, lambda each: each.name() == "serve_model")


def _find_programs() -> tuple[str, str, str]:
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    sshd, ssh, keygen = (shutil.which(name, path=path) or name for name in ("sshd", "ssh", "ssh-keygen"))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # the system's service makes it otherwise
    return sshd, ssh, keygen


@contextmanager
def ssh_board(
    folder: Path, programs: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[SshBoard]:
    """Yield a running server; other names of the client's configuration are boards that cannot be reached.

    ``programs`` are sh scripts that replace the board's own, ``variables`` are its environment's.
    """
    sshd, ssh, keygen = _find_programs()
    for name in ("host", "user", "stranger"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port, temporary = free_port(), folder / "tmp"
    temporary.mkdir()
    for name, script in (programs or {}).items():
        write_script(folder / "programs" / name, script)
    (folder / "user.pub").rename(folder / "authorized")
    host_key = (folder / "host.pub").read_text().split()[:2]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {' '.join(host_key)}\n")
    (folder / "none").touch()
    environment = {"TMPDIR": temporary, "PATH": f"{folder}/programs:/usr/bin:/bin", **(variables or {})}
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n"
        f"PermitRootLogin yes\nSetEnv {' '.join(f'{name}={value}' for name, value in environment.items())}\n"
    )
    (folder / "ssh_config").write_text(
        f"Host refused\n  Port {free_port()}\nHost stranger\n  IdentityFile {folder}/stranger\n"
        f"Host unknown\n  UserKnownHostsFile {folder}/none\n  StrictHostKeyChecking yes\n"
        "Host nowhere\n  HostName board.invalid\n"
        f"Host * !stranger\n  IdentityFile {folder}/user\n"
        f"Host *\n  HostName 127.0.0.1\n  Port {port}\n  IdentitiesOnly yes\n"
        f"  IdentityAgent none\n  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile {folder}/none\n"
    )
    client = folder / "bin" / "ssh"
    write_script(client, f'exec {ssh} -F {folder}/ssh_config "$@"')
    with (folder / "sshd.log").open("wb") as log:
        popen = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log, stdout=log)
    process = psutil.Process(popen.pid)
    try:
        wait_until(lambda: popen.poll() is not None or _answers(port), 20)
        assert popen.poll() is None, (folder / "sshd.log").read_text()
        yield SshBoard(f"{client.parent}:{os.environ['PATH']}", temporary, process)
    finally:
        kill_tree(process)
        popen.wait()


def write_script(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0
