"""Download and unpacking of Debian packages into the user's folders, without a change to the system.

The packages come from the sources that the system's apt is configured for, and apt checks their signatures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.masking import mask_credentials
from tvmbuild.errors import TvmbuildError

TIMEOUT_S = 900.0
_HINT = "run it on Debian or in a container of it, or set `device: none` (the repository's docs/how-to/devices.md)"


class AptError(TvmbuildError):
    """The error if Debian's packages are unavailable: no apt, no network, or no source for the architecture."""


@dataclass(frozen=True)
class Apt:
    """A private state of apt below ``folder``, with lists and downloads and without installed packages.

    Its methods raise AptError if apt fails.
    """

    folder: Path

    def update(self, architectures: Sequence[str]) -> None:
        """Fetch the package lists of these architectures and check their signatures."""
        for name in ("state/lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        self._run(architectures, "update")

    def download(self, architecture: str, packages: Sequence[str]) -> list[Path]:
        """Download the packages with all dependencies, and return the new files, sorted."""
        archives = self.folder / "cache" / "archives"
        before = set(archives.glob("*.deb"))
        self._run([architecture], "install", "--download-only", *packages)
        return sorted(set(archives.glob("*.deb")) - before)

    def _run(self, architectures: Sequence[str], *arguments: str) -> None:
        options = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": self.folder / "status",
            "Dir::Cache": self.folder / "cache",
            "Dir::Cache::archives": "archives",
            "APT::Architecture": architectures[0],
            "APT::Architectures": ",".join(architectures),
            "APT::Install-Recommends": "false",
            "APT::Get::List-Cleanup": "false",
            "Debug::NoLocking": "true",  # the lock is the system's, and apt touches nothing of the system
        }
        command = ["apt-get", "--quiet=2", "--assume-yes"]
        for name, value in options.items():
            command += ["-o", f"{name}={value}"]
        run_tool([*command, *arguments], "apt", f"apt-get {arguments[0]} of packages for {', '.join(architectures)}")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of a Debian package below ``folder``. The package's scripts are not run."""
    run_tool(["dpkg-deb", "--extract", str(archive), str(folder)], "dpkg", f"unpacking {archive.name}")


def host_architecture() -> str:
    """Return Debian's name of this machine's architecture, for example amd64."""
    return run_tool(["dpkg", "--print-architecture"], "dpkg", "asking for this machine's architecture").strip()


def check_tools() -> None:
    """Raise AptError if this system lacks apt or dpkg."""
    for name in ("apt-get", "dpkg", "dpkg-deb"):
        if shutil.which(name) is None:
            raise AptError(f"the emulated board is made of Debian's packages, and there is no {name} here", _HINT)


def run_tool(command: list[str], tool: str, what: str) -> str:
    """Run the command and return its stdout. Raises TvmbuildError with its last messages if it fails.

    ``tool`` is the key of the hint in `_TOOL_HINTS`, and ``what`` names the work in messages. The error is an AptError
    if the tool is apt, and says so if the command exceeds TIMEOUT_S.
    """
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TvmbuildError(f"{what} took longer than {TIMEOUT_S:g} s", "check the network and try again") from error
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        said = "; ".join([line for line in lines if line.startswith(("E:", "ERROR"))][:3] or lines[-3:])
        raise (AptError if tool == "apt" else TvmbuildError)(
            f"{what} failed: {mask_credentials(said) or f'exit code {done.returncode}'}", _TOOL_HINTS[tool]
        )
    return done.stdout


_TOOL_HINTS = {
    "apt": "check the network and apt's sources: they must offer packages for that architecture, as Debian's do",
    "dpkg": "is there room on the disk?",
    "pip": "check the network and pip's configuration (`pip config list`)",
    "qemu": _HINT,
}
