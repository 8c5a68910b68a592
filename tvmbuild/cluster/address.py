"""A check of the Dask scheduler's address before Dask uses it, because Dask's own errors come late, as tracebacks."""

from __future__ import annotations

import re
import socket
from typing import Literal

from distributed import Security

from tvmbuild.errors import TvmbuildError

TIMEOUT_S = 10.0


def check_scheduler(address: str, role: Literal["client", "worker"]) -> str:
    """Return the host in the address of a Dask scheduler, after a test connection.

    Raises TvmbuildError if the address is invalid, if Dask has no TLS certificate for this ``role``, or if nobody
    answers.
    """
    match = re.fullmatch(r"(tcp|tls)://([^/]+):(\d{1,5})", address)
    if match is None:
        raise TvmbuildError(f"{address} is not an address of a scheduler", "Write tcp://HOST:8786, or tls://HOST:8786.")
    protocol, host, port = match.groups()
    if protocol == "tls" and Security().get_connection_args(role).get("ssl_context") is None:
        raise TvmbuildError(
            f"{address} needs TLS, and Dask's settings name no certificate for a {role}",
            "docs/how-to/distributed.md of the repository shows them.",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise explain_silence(address, error) from error
    return host


def explain_silence(address: str, error: Exception) -> TvmbuildError:
    """Return the TvmbuildError for an address at which no scheduler answers."""
    return TvmbuildError(
        f"no scheduler answers at {address}: {error}",
        "`dask scheduler --host 127.0.0.1` starts one and says its address.",
    )
