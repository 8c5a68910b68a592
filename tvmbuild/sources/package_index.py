"""The download of a Python distribution, which builds and runs nothing: its wheel by pip, otherwise its sdist."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tvmbuild.base.pip_download import download_command
from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.pip_settings import read_pip_settings

TIMEOUT_S = 900
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
_UNREACHABLE = ("NewConnectionError", "ConnectTimeoutError", "NameResolutionError", "SSLError", "ProxyError")
_VERSIONS = re.compile(r"from versions: ([^)]*)\)")


def download_distribution(requirement: str, folder: Path) -> Path:
    """Download ``name==version`` into ``folder`` and return the path of the wheel or the sdist.

    Both downloads obey the user's own pip configuration (indexes, find-links, certificates). Raises TvmbuildError,
    which says whether the index, the package or the version is missing.
    """
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        raise TvmbuildError(f"`package: {requirement}` is not of the form name==version", "correct models.yaml")
    if find_spec("pip") is None:
        raise TvmbuildError(
            f"cannot download {requirement}: this Python environment has no pip",
            f"install it with `{sys.executable} -m ensurepip`, or with `uv pip install pip`",
        )
    wheels = folder / "wheels"
    wheels.mkdir()
    answer = _run_pip(requirement, wheels)
    found = sorted(wheels.glob("*.whl"))
    if found:
        return found[0]
    if any(sign in answer for sign in _UNREACHABLE):
        raise TvmbuildError(
            f"cannot download {requirement}: pip does not reach its package index",
            "check the network and pip's configuration (`pip config list`), or use a local file with `path:`",
        )
    from tvmbuild.sources.sdist import download_sdist  # noqa: PLC0415 - its HTTP client is slow to import

    sdist = download_sdist(requirement, read_pip_settings(), folder)
    if sdist is not None:
        return sdist
    raise _explain(requirement, match.group(2), answer)


def _run_pip(requirement: str, folder: Path) -> str:
    command = download_command(folder, "--no-deps", requirement)
    environment = dict(os.environ, PYTHONWARNINGS="ignore")
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TvmbuildError(
            f"pip did not finish downloading {requirement} in {TIMEOUT_S} s", "check the network and try again"
        ) from error
    return done.stdout + done.stderr


def _explain(requirement: str, version: str, answer: str) -> TvmbuildError:
    lines = [line for line in answer.splitlines() if line.startswith("ERROR")]
    versions = _VERSIONS.search(answer)
    known = [v.strip() for v in versions.group(1).split(",")] if versions else []
    known = [v for v in known if v and v != "none"]
    if known:
        near = difflib.get_close_matches(version, known, n=3, cutoff=0.3) or known[-3:]
        return TvmbuildError(
            f"{requirement} does not exist; the nearest versions: {', '.join(near)}",
            "correct `package:` in models.yaml",
        )
    detail = f" ({lines[-1].removeprefix('ERROR: ')})" if lines else ""
    return TvmbuildError(
        f"pip finds neither a wheel nor an sdist of {requirement}{detail}",
        "correct `package:` in models.yaml, or check `pip config list`",
    )
