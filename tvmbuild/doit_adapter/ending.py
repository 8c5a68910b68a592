"""The exit from doit after a TvmbuildError. For any other exception doit shows a traceback."""

from __future__ import annotations

from tvmbuild.errors import TvmbuildError


def end_run(error: TvmbuildError) -> SystemExit:
    """Return the exception that ends the process with the message on stderr and exit code 1."""
    return SystemExit(f"error: {error}")
